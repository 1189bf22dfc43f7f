#!/usr/bin/env bash
# Runs the programs of a tarball of `make dist` on another kernel of their machine, under QEMU: a small
# machine, like a router, with nothing but busybox.
#
#   scripts/dist-guest.sh [ARCH [KERNEL [MIB]]]
#   TRANSOM_PROGRAMS=FOLDER scripts/dist-guest.sh …    programs of scripts/dist-build.sh, without a tarball
#
# ARCH is arm64 (default) or amd64, from target/packages; KERNEL as guest.sh takes it, by default Debian
# 13's; MIB its memory, by default 128.
#
# What is done there is scripts/guest/packaged.sh, then scripts/guest/device.sh with a root that cannot be written.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:-arm64}
case $arch in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*)
	echo "transom: dist-guest.sh ARCH: amd64 or arm64" >&2
	exit 2
	;;
esac
dist=${TRANSOM_DIST:-${CARGO_TARGET_DIR:-$PWD/target}/packages}
kernel=${2:-linux-image-6.12-$arch}
memory=${3:-128}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${TRANSOM_PROGRAMS:-}" ]; then
	mkdir "$work/bin"
	strip="strip"
	[ "$machine" = "$(uname -m)" ] || strip=$machine-linux-gnu-strip
	for program in transom transom-agent transom-fleet; do
		"$strip" -o "$work/bin/$program" "$TRANSOM_PROGRAMS/$program"
	done
else
	tarball=$(compgen -G "$dist/transom-*-linux-$arch.tar.xz" | head -n 1) || {
		echo "transom: dist-guest: no tarball for $arch in $dist: make dist" >&2
		exit 1
	}
	tar -C "$work" --strip-components=1 -xJf "$tarball"
fi
# On a disk, as flash is: what is in the initial file system takes memory.
cp scripts/guest/packaged.sh scripts/guest/device.sh scripts/guest/steps.sh "$work/bin/"
mke2fs -q -t ext4 -O ^has_journal -d "$work/bin" "$work/disk" 64M
scripts/guest.sh --arch "$machine" --kernel "$kernel" --memory "$memory" --cpus 1 --root small \
	--limit "${TRANSOM_GUEST_LIMIT:-600}" --disk "$work/disk:/guest" -- sh -c "sh /guest/packaged.sh && sh /guest/device.sh"
