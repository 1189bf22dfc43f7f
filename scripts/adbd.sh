#!/usr/bin/env bash
# Fetches Android's adbd, the device's side of adb, and the shell and tools of a phone, mksh and toybox,
# from Debian 13 with all they link; nothing is installed. Prints the folder, which
# scripts/adbd-device.sh runs them from.
#
#   scripts/adbd.sh [x86_64|aarch64]     by default this machine's
#
# What was fetched is kept in target/adbd/ARCH, so that a second time needs no mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: adbd: $*" >&2
	exit 1
}

readonly SUITE=trixie PACKAGES='adbd mksh toybox'
machine=${1:-$(uname -m)}
case $machine in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) fail "no adbd for the machine '$machine': x86_64 or aarch64" ;;
esac
folder=${CARGO_TARGET_DIR:-$PWD/target}/adbd/$machine
if [ "$(cat "$folder/complete" 2>/dev/null)" = "$SUITE $PACKAGES" ]; then
	echo "$folder"
	exit
fi
command -v apt-get >/dev/null || fail "it is Debian's package, and there is no apt-get here"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || fail "the keys of Debian's archive are missing: package debian-archive-keyring"
mirror=$(scripts/guest-package.sh "$machine" mirror)

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$(dirname "$folder")/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/state/lists/partial "$work"/cache/archives/partial "$work"/root/usr/{bin,sbin,lib,lib64}
for name in bin sbin lib lib64; do
	ln -s "usr/$name" "$work/root/$name"
done
: >"$work/state/status"
echo "deb [signed-by=$keys] $mirror $SUITE main" >"$work/sources.list"
# No package counts as installed, so that apt names everything it takes.
apt=(-qq -o "Dir::State=$work/state" -o "Dir::State::status=$work/state/status" -o "Dir::Cache=$work/cache"
	-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
	-o "APT::Architecture=$debian" -o "APT::Architectures=$debian" -o APT::Sandbox::User=root
	-o Debug::NoLocking=1)
apt-get "${apt[@]}" update >&2 || fail "the list of Debian's $SUITE cannot be had from $mirror"
# shellcheck disable=SC2086 # several words are meant
apt-get "${apt[@]}" install --download-only -y --no-install-recommends $PACKAGES >&2 ||
	fail "the packages $PACKAGES cannot be had from $mirror"
for file in "$work"/cache/archives/*.deb; do
	dpkg --fsys-tarfile "$file" | tar -C "$work/root" -x --keep-directory-symlink
done
rm -rf "$folder"
mv "$work/root" "$folder"
echo "$SUITE $PACKAGES" >"$folder/complete"
echo "$folder"
