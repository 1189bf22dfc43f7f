#!/usr/bin/env bash
# Builds liblinux.a: Linux's network stack as a library (docs/library.md).
#
#   scripts/linux-library.sh [--if-possible] [--series SERIES] [MACHINE]
#
# With --if-possible it is no error that there is no kernel source.
#
# SERIES is 6.12, the default, or 6.1, which becomes liblinux-6.1.a: its
# functions are named linux61_… instead of linux_…, so that one program can be
# linked with both.
#
# MACHINE is x86_64 or aarch64, by default this one's; for the other a cross
# compiler is needed. All is kept under the target directory (CARGO_TARGET_DIR
# or target), in linux/; a second run builds what has changed.
#
#   TRANSOM_LINUX_SOURCE=FILE       the tarball of 6.12, instead of the package's
#   TRANSOM_LINUX_SOURCE_6_1=FILE   the tarball of 6.1
#   TRANSOM_JOBS=N                  parallel jobs, by default one a processor
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: $*" >&2
	exit 1
}

possible=
series=6.12
while [[ ${1:-} = --* ]]; do
	case $1 in
	--if-possible) possible=1 ;;
	--series)
		[ $# -gt 1 ] || fail "--series needs a name: 6.12 or 6.1"
		series=$2
		shift
		;;
	*) fail "no option '$1': --if-possible or --series SERIES" ;;
	esac
	shift
done
# `tested` is the release that the tests passed with.
case $series in
6.12) tested=117 suffix='' prefix=linux ;;
6.1) tested=192 suffix=-6.1 prefix=linux61 ;;
*) fail "no library of the series '$series': 6.12 or 6.1" ;;
esac
library=liblinux$suffix.a
named=TRANSOM_LINUX_SOURCE${suffix//[-.]/_}
readonly TARBALL=${!named:-/usr/src/linux-source-$series.tar.xz}

machine=${1:-$(uname -m)}
case $machine in
x86_64 | aarch64) ;;
*) fail "no library for the machine '$machine': x86_64 or aarch64" ;;
esac
cross=
if [ "$machine" != "$(uname -m)" ]; then
	cross=$machine-linux-gnu-
	[ "$machine" = x86_64 ] && cross=x86-64-linux-gnu-
	command -v "${cross}gcc" >/dev/null 2>&1 ||
		fail "no compiler for $machine: install gcc-${cross%-}"
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/linux
source=$target/linux-source-$series
build=$target/build-$machine$suffix
architecture=$(realpath linux/arch)

# Big, and never compiled here. Their Kconfig files are read.
readonly UNUSED="gpu infiniband media net/ethernet net/wireless scsi staging usb"

if [ -n "$possible" ] && ! [ -r "$TARBALL" ]; then
	echo "transom: no $library, and no tests of it: no kernel source in $TARBALL" >&2
	exit 0
fi

unpack() {
	[ -r "$TARBALL" ] ||
		fail "no kernel source in $TARBALL: install linux-source-$series (scripts/prerequisites.sh linux)"
	# Another package than the one unpacked: begin anew.
	local stamp=$target/unpacked$suffix identity
	identity=$(stat -L -c '%n %s %Y' "$TARBALL")
	[ -e "$stamp" ] && [ "$(cat "$stamp")" = "$identity" ] && return
	echo "transom: unpacking $TARBALL"
	rm -rf "$source" "$target"/build-{x86_64,aarch64}"$suffix"
	local unused=() directory
	for directory in $UNUSED; do
		unused+=("--exclude=*/drivers/$directory/*.[ch]")
	done
	tar -xf "$TARBALL" -C "$target" --exclude='*/Documentation/*/*' --exclude='*/boot/dts/*' \
		--exclude='*/sound/*.[ch]' --exclude='*/tools/testing/*' "${unused[@]}"
	[ -e "$source/Makefile" ] || fail "$TARBALL holds no linux-source-$series"
	printf '%s\n' "$identity" >"$stamp"
}

check_version() {
	local sub
	sub=$(sed -n 's/^SUBLEVEL = //p' "$source/Makefile")
	[ "$sub" = "$tested" ] ||
		echo "transom: kernel $series.$sub: the library was tested with $series.$tested" >&2
}

# Who built it where is nobody's business.
export KBUILD_BUILD_USER=transom KBUILD_BUILD_HOST=library

kernel_make() {
	make -s -C "$source" O="$build" ARCH=transom CROSS_COMPILE="$cross" "$@"
}

# A new configuration only if ours has changed: it rebuilds everything. So does
# a header of ours in the place of a generic one, which kbuild does not see.
configure() {
	local ours
	ours=$(cat "$architecture/configs/transom_defconfig" "$architecture"/Kconfig* &&
		ls "$architecture/include/asm")
	[ -e "$build/configured" ] && [ "$(cat "$build/configured")" = "$ours" ] && return
	rm -rf "$build"
	mkdir -p "$build"
	kernel_make transom_defconfig
	printf '%s\n' "$ours" >"$build/configured"
}

# Outside it may know the C library's copying, and nothing else.
check_symbols() {
	local unknown
	unknown=$("${cross}nm" -u "$build/liblinux.a" | awk '$1 == "U" {print $2}' |
		grep -vxE 'memcpy|memmove|memset|memcmp' || true)
	[ -z "$unknown" ] || fail "$library misses: ${unknown//$'\n'/ }"
}

mkdir -p "$target"
# Two at once would build into each other.
exec 9>"$target/lock$suffix"
flock 9
unpack
check_version
ln -sfn "$architecture" "$source/arch/transom"
configure
kernel_make -j"${TRANSOM_JOBS:-$(nproc)}" library
check_symbols
mkdir -p "$target/$machine"
made=$target/$machine/$library
sed "s/^linux_\(.*\)/& ${prefix}_\1/" "$build/linux.calls" >"$build/linux.names"
"${cross}objcopy" --redefine-syms="$build/linux.names" "$build/liblinux.a" "$made.new"
mv "$made.new" "$made"
"${cross}size" "$made" | awk -v what="$library for $machine" \
	'NR == 2 {printf "transom: %s: %.1f MB of code, %.1f MB of data\n", what, $1 / 1e6, ($2 + $3) / 1e6}'
