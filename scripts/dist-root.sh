#!/usr/bin/env bash
# Makes a clean root of a distribution, for the tests of the packages. Prints the tar file that has it.
#
#   scripts/dist-root.sh SUITE [PACKAGE…]      bullseye, bookworm, trixie, sid; jammy, noble
#
# It has debootstrap's smallest set and PACKAGE. It is made once, below target/roots. Needs root.
# Ubuntu's releases are checked with the keys in Debian's package ubuntu-keyring, which trixie has.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: dist-root: $*" >&2
	exit 1
}

suite=${1:-}
[ -n "$suite" ] || fail "name a release: bullseye, bookworm, trixie, sid, jammy or noble"
shift
[ "$(id -u)" = 0 ] || fail "needs root"
roots=${CARGO_TARGET_DIR:-$PWD/target}/roots
mkdir -p "$roots"
name=$suite
[ $# = 0 ] || name=$suite-$(sha256sum <<<"$*" | cut -c1-8)
readonly SCRIPTS=/usr/share/debootstrap/scripts
options=(--variant=minbase)
[ $# = 0 ] || options+=("--include=$(tr ' ' , <<<"$*")")

packages() { scripts/guest-package.sh "$(uname -m)" "$@"; }

if [ ! -e "$roots/$name.tar" ]; then
	case $suite in
	jammy | noble)
		keys=$(packages files trixie/ubuntu-keyring)/usr/share/keyrings/ubuntu-archive-keyring.gpg
		options+=("--components=main,universe" "--keyring=$keys")
		mirror=${TRANSOM_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} script=$SCRIPTS/jammy
		;;
	*) mirror=$(packages mirror) script=$SCRIPTS/sid ;;
	esac
	[ ! -e "$SCRIPTS/$suite" ] || script=$SCRIPTS/$suite
	rm -rf "${roots:?}/$name"
	debootstrap "${options[@]}" "$suite" "$roots/$name" "$mirror" "$script" >"$roots/$name.log" 2>&1 ||
		fail "debootstrap $suite from $mirror failed: $(tail -n 3 "$roots/$name.log")"
	rm -f "$roots/$name"/var/cache/apt/archives/*.deb
	tar -C "$roots/$name" -c . >"$roots/$name.tar.new"
	rm -rf "${roots:?}/$name"
	mv "$roots/$name.tar.new" "$roots/$name.tar"
fi
echo "$roots/$name.tar"
