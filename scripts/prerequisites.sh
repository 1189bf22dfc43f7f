#!/usr/bin/env bash
# Installs what is missing for the given purposes, and only that.
#
#   scripts/prerequisites.sh [build] [demo] [test] [lint] [bench] [linux] [arm64] [guest] [dist] [dist-test] [dist-systemd] [fleet-demo]
#
# Looks first and asks for root only when something is missing. Knows the
# packages of Debian 12 and newer and of Ubuntu; elsewhere it says what to install.
set -euo pipefail

readonly OLDEST_RUST=1.88
readonly OLDEST_CLANG=14

# Names of Debian packages that are missing, and those we can do without.
missing=()
wished=()
# Those whose packages start a service where there is systemd: there they are named, and left to the user.
services=()

has() { command -v "$1" >/dev/null 2>&1; }

# Tools of the administrator are not in everybody's PATH.
has_tool() { has "$1" || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

need() { # COMMAND PACKAGE
	has_tool "$1" || missing+=("$2")
}

wish() { # COMMAND PACKAGE
	has_tool "$1" || wished+=("$2")
}

wish_service() { # COMMAND PACKAGE
	if [ -d /run/systemd/system ]; then
		has_tool "$1" || services+=("$2")
	else
		wish "$1" "$2"
	fi
}

wish_for() { # PURPOSE
	local needed=("${missing[@]}")
	missing=()
	"look_for_$1"
	wished+=("${missing[@]}")
	missing=("${needed[@]}")
}

at_least() { # VERSION LEAST
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

has_clang() {
	[ -n "${CLANG:-}" ] && return
	local n
	for n in $(seq 30 -1 "$OLDEST_CLANG"); do
		has "clang-$n" && return
	done
	has clang && at_least "$(clang -dumpversion)" "$OLDEST_CLANG"
}

# That of 19, or else the newest.
newest_package() { # clang|lld
	if apt-cache show "$1-19" >/dev/null 2>&1; then
		echo "$1-19"
		return
	fi
	apt-cache search --names-only "^$1-[0-9]+$" | awk '{print $1}' | sort -V | tail -n 1
}

# The version of this cargo, or nothing.
cargo_version() {
	cargo --version 2>/dev/null | awk '{print $2}'
}

# The version of Debian's package, or nothing.
package_version() {
	apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ && $2 != "(none)" {print $2}'
}

cargo_packages() {
	local rust
	for rust in "" -web; do
		if at_least "$(package_version "rustc$rust")" "$OLDEST_RUST"; then
			echo "cargo$rust rustc$rust rustfmt$rust"
			return
		fi
	done
	# Ubuntu has newer compilers only under names such as cargo-1.89, which nothing finds as cargo.
	[ -z "$(package_version rustup)" ] || echo rustup
}

look_for_build() {
	need cc build-essential
	need make make
	need pkg-config pkg-config
	has_clang || missing+=(clang)
	has pkg-config && pkg-config --exists libelf || missing+=(libelf-dev)
	has pkg-config && pkg-config --exists zlib || missing+=(zlib1g-dev)
	at_least "$(cargo_version)" "$OLDEST_RUST" || missing+=(cargo)
}

look_for_demo() {
	need ip iproute2
	need tc iproute2
	need iperf iperf
	need iperf3 iperf3
	wish mptcpize mptcpize
}

look_for_fleet-demo() {
	need ip iproute2
	need nsenter util-linux
	need python3 python3
	python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
	wish_service prometheus prometheus
}

look_for_test() {
	look_for_demo
	need ping iputils-ping
	need tcpdump tcpdump
	need bpftool bpftool
	need ss iproute2
	need tmux tmux
	need python3 python3
	# The names of ports.
	[ -e /etc/services ] || missing+=(netbase)
	python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
	has chromium || has chromium-browser || has google-chrome || wished+=(chromium)
	# Other distributions have no such kernel source: what is linked with it is then not tested.
	wish_for linux
	# Programs that its tests run. nginx and sshd too where they are: their packages start services.
	wish curl curl
	# A clock that is a day off, for one program.
	wish faketime faketime
	wish wget wget
	wish git git
	# It scrapes the agent, and the metrics of a shipper.
	wish_service prometheus prometheus
	wish_service prometheus-node-exporter prometheus-node-exporter
	# It reads what `transom convert` writes for Wireshark.
	wish tshark tshark
	# A phone of tests: adb, and its other side (scripts/adbd.sh), which is unpacked, not installed.
	wish adb adb
	# They read the manual, the completions, the units and the packages.
	wish_for packages
}

look_for_lint() {
	cargo fmt --version >/dev/null 2>&1 || wished+=(rustfmt)
	wish clang-format-19 clang-format-19
	wish shellcheck shellcheck
	wish pyflakes3 pyflakes3
	wish npx npm
}

look_for_bench() {
	look_for_demo
	wish bpftrace bpftrace
	need bpftool bpftool
	need ss iproute2
	# The package of nginx starts a service where there is systemd.
	need nginx nginx
	need wrk wrk
	wish tcplife libbpf-tools
}

look_for_linux() {
	need flex flex
	need bison bison
	need bc bc
	need xz xz-utils
	need ip iproute2
	[ -n "${TRANSOM_LINUX_SOURCE:-}" ] || [ -e /usr/src/linux-source-6.12.tar.xz ] ||
		missing+=(linux-source-6.12)
	# The second kernel (docs/library.md): Debian 12 has it.
	[ -n "${TRANSOM_LINUX_SOURCE_6_1:-}" ] || [ -e /usr/src/linux-source-6.1.tar.xz ] ||
		wished+=(linux-source-6.1)
}

look_for_arm64() {
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || missing+=(libc6-dev-arm64-cross)
	need qemu-aarch64-static qemu-user-static
	need qemu-system-aarch64 qemu-system-arm
	need cpio cpio
	need depmod kmod
}

look_for_packages() {
	need dpkg-deb dpkg
	wish lintian lintian
	wish groff groff-base
	wish mandoc mandoc
	wish zsh zsh
	wish fish fish
	wish systemd-analyze systemd
}

look_for_dist() {
	look_for_packages
	need xz xz-utils
	need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	[ -e /usr/aarch64-linux-gnu/lib/libc.a ] || missing+=(libc6-dev-arm64-cross)
	"$(dirname "$0")/lld.sh" >/dev/null 2>&1 || missing+=(lld)
}

look_for_dist-test() {
	need debootstrap debootstrap
}

look_for_dist-systemd() {
	look_for_dist-test
	need qemu-system-x86_64 qemu-system-x86
	need mke2fs e2fsprogs
	need cpio cpio
	need depmod kmod
	need xz xz-utils
}

look_for_guest() {
	need qemu-system-x86_64 qemu-system-x86
	wish qemu-system-aarch64 qemu-system-arm
	need cpio cpio
	need depmod kmod
	need xz xz-utils
	# A kernel as a phone has it, and the SELinux policy of its guest (docs/gki.md).
	wish aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
	wish pahole pahole
	wish secilc secilc
	wish qemu-aarch64-static qemu-user-static
	wish_for linux
}

can_be_root() { [ "$(id -u)" = 0 ] || has sudo; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif has sudo; then
		echo "transom: sudo $*"
		sudo "$@"
	else
		echo "transom: this needs root and there is no sudo; run as root:" >&2
		echo "    $*" >&2
		exit 1
	fi
}

# Lists that were never fetched, or long ago, do not name what can be had.
refresh_lists() {
	local lists=/var/lib/apt/lists
	if ! compgen -G "$lists/*Packages*" >/dev/null ||
		[ -z "$(find "$lists" -maxdepth 0 -mtime -2 -print)" ]; then
		as_root apt-get update -q
	fi
}

install_packages() {
	echo "transom: installing $*"
	local command=(env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends)
	# A version that the mirror has replaced since the lists were fetched.
	as_root "${command[@]}" "$@" || { as_root apt-get update -q && as_root "${command[@]}" "$@"; }
}

# rustup knows newer compilers than Debian.
update_with_rustup() {
	has rustup || return 1
	echo "transom: no cargo, or one older than $OLDEST_RUST: rustup update stable"
	rustup update stable && rustup default stable
}

explain_cargo() {
	echo "transom: needs cargo $OLDEST_RUST or newer, and no package here has it: see https://rustup.rs" >&2
	exit 1
}

install_cargo() {
	update_with_rustup && return
	local packages
	packages=$(cargo_packages)
	[ -n "$packages" ] || explain_cargo
	# shellcheck disable=SC2086 # several words are meant
	install_packages $packages
	hash -r
	[ "$packages" != rustup ] || update_with_rustup
	at_least "$(cargo_version)" "$OLDEST_RUST" || explain_cargo
}

# Sets `packages` to what apt is to be asked for: real names, each once.
name_packages() {
	packages=()
	local name
	for name in "${missing[@]}" "${wished[@]}"; do
		case $name in
		cargo) continue ;;
		clang | lld) name=$(newest_package "$name") ;;
		rustfmt)
			# It comes with cargo, from where cargo comes.
			case " ${missing[*]} " in *" cargo "*) continue ;; esac
			has rustup && rustup component add rustfmt clippy && continue
			dpkg -s cargo-web >/dev/null 2>&1 && name=rustfmt-web
			;;
		esac
		case " ${packages[*]} " in *" $name "*) continue ;; esac
		apt-cache show "$name" >/dev/null 2>&1 && packages+=("$name")
	done
}

explain_elsewhere() {
	echo "transom: missing here, under Debian's names: ${missing[*]} ${wished[*]}" >&2
	echo "transom: install them with your distribution's packages (README.md, Requirements)" >&2
	[ ${#missing[@]} = 0 ] && exit 0
	exit 1
}

install_missing() {
	has apt-get || explain_elsewhere
	[ ${#missing[@]} -gt 0 ] || can_be_root || return 0
	refresh_lists
	local packages name
	name_packages
	[ ${#packages[@]} = 0 ] || install_packages "${packages[@]}"
	for name in "${missing[@]}"; do
		[ "$name" = cargo ] && install_cargo
	done
	return 0
}

look() {
	missing=()
	wished=()
	services=()
	local purpose
	for purpose in "$@"; do
		"look_for_$purpose"
	done
}

for purpose in "$@"; do
	case $purpose in
	build | demo | test | lint | bench | linux | arm64 | guest | dist | dist-test | dist-systemd | fleet-demo) ;;
	*)
		echo "transom: no purpose '$purpose': build, demo, test, lint, bench, linux, arm64, guest, dist, dist-test, dist-systemd or fleet-demo" >&2
		exit 2
		;;
	esac
done
case " $* " in
*" test "*) "$(dirname "$0")/adbd.sh" >/dev/null || echo "transom: without adbd, parts are skipped" >&2 ;;
esac
look "$@"
if [ ${#services[@]} -gt 0 ]; then
	echo "transom: without ${services[*]}, parts are skipped; not installed, since the package would start a service" >&2
fi
[ $((${#missing[@]} + ${#wished[@]})) = 0 ] && exit 0
install_missing
look "$@"
if [ ${#missing[@]} -gt 0 ]; then
	echo "transom: still missing: ${missing[*]}" >&2
	exit 1
fi
if [ ${#wished[@]} -gt 0 ]; then
	echo "transom: without ${wished[*]}, which could not be had, parts are skipped" >&2
fi
