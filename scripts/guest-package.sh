#!/usr/bin/env bash
# Fetches Debian packages of any architecture and unpacks them; nothing is installed.
#
#   scripts/guest-package.sh ARCH kernel PACKAGE           prints the folder with boot/ and lib/modules/
#   scripts/guest-package.sh ARCH files PACKAGE            prints the folder with the package's files
#   scripts/guest-package.sh ARCH closure FOLDER PACKAGE…  the packages and all they depend on
#   scripts/guest-package.sh ARCH mirror                   prints where this machine's Debian packages come from
#
# ARCH is x86_64 or aarch64. What was fetched is kept in target/guest/ARCH, so
# that a second time needs no mirror. PACKAGE of a kernel may be the one that
# only names the newest (linux-image-amd64). SUITE/PACKAGE is that of another
# release (bullseye, trixie-backports, sid; jammy, noble of Ubuntu), by itself,
# without what it depends on.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: $*" >&2
	exit 1
}

machine=$1
case $machine in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) fail "no guest for the machine '$machine': x86_64 or aarch64" ;;
esac
cache=$PWD/target/guest/$machine
mkdir -p "$cache/archives/partial" "$cache/state/lists/partial" "$cache/empty/partial"

# No package counts as installed, so that apt names everything it takes.
: >"$cache/state/status"
apt=(-q -o "Dir::State::status=$cache/state/status" -o "Dir::Cache::archives=$cache/archives"
	-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root
	-o "Debug::NoLocking=1")

# Lists of another architecture are not this machine's: they are kept here, and its own left alone.
use_lists_of() {
	[ "$(dpkg --print-architecture)" = "$1" ] && return
	apt+=(-o "Dir::State=$cache/state" -o "APT::Architecture=$1" -o "APT::Architectures=$1")
	[ -n "$(find "$cache/state/lists" -name '*Packages*' -mtime -7 -print -quit)" ] && return
	echo "transom: the lists of Debian's packages for $1" >&2
	# A source that has nothing for this architecture is no obstacle.
	apt-get "${apt[@]}" update >&2 || true
}

# Where this machine's Debian packages come from; Debian's own, where it is no Debian.
debian_mirror() {
	local mirror=''
	if grep -qs '^ID=debian$' /etc/os-release; then
		mirror=$(sed -n 's/^URIs: *//p; s/^deb \(http[^ ]*\) .*/\1/p' \
			/etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
	fi
	echo "${mirror:-http://deb.debian.org/debian}"
}

# From now on packages are those of this release, whose lists are kept here.
use_suite() { # SUITE
	local state=$cache/suites/$1 keys=/usr/share/keyrings/debian-archive-keyring.gpg mirror
	mkdir -p "$state/lists/partial" "$state/none"
	case $1 in
	jammy* | noble*)
		keys=$(scripts/guest-package.sh "$machine" files trixie/ubuntu-keyring)/usr/share/keyrings/ubuntu-archive-keyring.gpg
		mirror=${TRANSOM_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
		;;
	*) mirror=$(debian_mirror) ;;
	esac
	echo "deb [signed-by=$keys] $mirror $1 main" >"$state/sources"
	: >"$state/status"
	apt+=(-o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Etc::sourcelist=$state/sources"
		-o "Dir::Etc::sourceparts=$state/none" -o "APT::Architecture=$debian" -o "APT::Architectures=$debian"
		-o APT::Default-Release=)
	[ -n "$(find "$state/lists" -name '*Packages*' -mtime -7 -print -quit)" ] && return
	echo "transom: the lists of packages of $1 for $debian" >&2
	apt-get "${apt[@]}" update >&2
}

# The name without its release, whose lists are then used; otherwise those of this machine's.
choose_suite() { # [SUITE/]PACKAGE
	case $1 in
	*/*) use_suite "${1%%/*}" ;;
	*) use_lists_of "$debian" ;;
	esac
	package=${1#*/}
}

# The file of one package, fetched if it is not there.
fetch() { # PACKAGE
	(cd "$cache/archives" && apt-get "${apt[@]}" download "$1" >&2) ||
		fail "no package '$1' for $debian: apt-cache search linux-image shows the kernels"
	find "$cache/archives" -maxdepth 1 -name "${1}_*.deb" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-
}

# What a package depends on, of packages with such a name.
depends_on() { # PACKAGE PATTERN
	apt-cache "${apt[@]}" depends --no-recommends "$1" 2>/dev/null |
		sed -n "s/^[ |]*Depends: \\($2\\)\$/\\1/p"
}

# The kernel that a package without one of its own depends on.
real_kernel() { # PACKAGE
	local next
	next=$(depends_on "$1" 'linux-image-[0-9].*' | head -n 1)
	echo "${next:-$1}"
}

# A kernel, and its parts where they are packages of their own.
kernel() { # [SUITE/]PACKAGE
	local name folder file part
	folder=$cache/$1
	if [ ! -e "$folder/complete" ]; then
		choose_suite "$1"
		name=$(real_kernel "$package")
		folder=$cache/$name
	fi
	if [ ! -e "$folder/complete" ]; then
		rm -rf "$folder"
		mkdir -p "$folder"
		for part in "$name" $(depends_on "$name" 'linux-[mb][a-z]*-[0-9].*'); do
			file=$(fetch "$part")
			dpkg -x "$file" "$folder"
			rm -f "$file"
		done
		if [ -d "$folder/usr/lib/modules" ]; then
			mkdir -p "$folder/lib"
			mv "$folder/usr/lib/modules" "$folder/lib/"
		fi
		# Debian's since 7.1 lies beside its modules.
		if [ ! -d "$folder/boot" ]; then
			mkdir "$folder/boot"
			mv "$folder"/lib/modules/*/vmlinuz "$folder/boot/vmlinuz-$(ls "$folder/lib/modules")"
		fi
		/sbin/depmod -b "$folder" "$(ls "$folder/lib/modules")"
		: >"$folder/complete"
	fi
	echo "$folder"
}

closure() { # FOLDER PACKAGE…
	local folder=$1 list file
	shift
	use_lists_of "$debian"
	# What is in apt's cache already would not be named.
	list=$(apt-get "${apt[@]}" -qq -o "Dir::Cache::archives=$cache/empty" install --print-uris -y --no-install-recommends "$@") ||
		fail "these packages cannot be had for $debian: $*"
	apt-get "${apt[@]}" -qq install --download-only -y --no-install-recommends "$@" >/dev/null
	sed -n "s/^'[^']*' \([^ ]*\.deb\) .*/\1/p" <<<"$list" >"$cache/closure"
	while read -r file; do
		# The guest's /bin is a link to /usr/bin, which dpkg -x would replace by a folder.
		dpkg --fsys-tarfile "$cache/archives/$file" | tar -C "$folder" -x --keep-directory-symlink
	done <"$cache/closure"
}

files() { # [SUITE/]PACKAGE
	local file
	if [ ! -e "$cache/$1/complete" ]; then
		choose_suite "$1"
		file=$(fetch "$package")
		mkdir -p "$cache/$1"
		dpkg -x "$file" "$cache/$1"
		: >"$cache/$1/complete"
	fi
	echo "$cache/$1"
}

case ${2:-} in
kernel | files) "$2" "$3" ;;
mirror) debian_mirror ;;
closure) closure "${@:3}" ;;
*) fail "guest-package.sh: kernel, files, closure or mirror" ;;
esac
