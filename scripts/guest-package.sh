#!/usr/bin/env bash
# Fetches Debian packages of any architecture and unpacks them; nothing is installed.
#
#   scripts/guest-package.sh ARCH kernel PACKAGE           prints the folder with boot/ and lib/modules/
#   scripts/guest-package.sh ARCH files PACKAGE            prints the folder with the package's files
#   scripts/guest-package.sh ARCH closure FOLDER PACKAGE…  the packages and all they depend on
#
# ARCH is x86_64 or aarch64. What was fetched is kept in target/guest/ARCH, so
# that a second time needs no mirror. PACKAGE of a kernel may be the one that
# only names the newest (linux-image-amd64).
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

# The file of one package, fetched if it is not there.
fetch() { # PACKAGE
	(cd "$cache/archives" && apt-get "${apt[@]}" download "$1" >&2) ||
		fail "no package '$1' for $debian: apt-cache search linux-image shows the kernels"
	find "$cache/archives" -maxdepth 1 -name "${1}_*.deb" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-
}

# The kernel that a package without one of its own depends on.
real_kernel() { # PACKAGE
	local next
	next=$(apt-cache "${apt[@]}" depends --no-recommends "$1" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
	echo "${next:-$1}"
}

kernel() { # PACKAGE
	local name folder file
	name=$1
	folder=$cache/$name
	if [ ! -e "$folder/complete" ]; then
		use_lists_of "$debian"
		name=$(real_kernel "$1")
		folder=$cache/$name
	fi
	if [ ! -e "$folder/complete" ]; then
		file=$(fetch "$name")
		rm -rf "$folder"
		mkdir -p "$folder"
		dpkg -x "$file" "$folder"
		rm -f "$file"
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

files() { # PACKAGE
	local file
	if [ ! -e "$cache/$1/complete" ]; then
		use_lists_of "$debian"
		file=$(fetch "$1")
		mkdir -p "$cache/$1"
		dpkg -x "$file" "$cache/$1"
		: >"$cache/$1/complete"
	fi
	echo "$cache/$1"
}

case ${2:-} in
kernel | files) "$2" "$3" ;;
closure) closure "${@:3}" ;;
*) fail "guest-package.sh: kernel, files or closure" ;;
esac
