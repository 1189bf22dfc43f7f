#!/usr/bin/env bash
# Builds an arm64 kernel as a phone has it from Debian's kernel source (docs/gki.md).
#
#   scripts/gki-kernel.sh [--series 6.12|6.1] [4k|16k]            builds it if it is not there yet
#   scripts/gki-kernel.sh --built [--series 6.12|6.1] [4k|16k]    only says where it is, or fails
#
# 4k and 16k are the sizes of a page, 4k by default. Prints the folder, laid out
# as a package of Debian's kernel: boot/vmlinuz-VERSION, lib/modules/VERSION, and
# `complete`, which says what it was made from. A change of scripts/guest/gki.config
# or of the source makes it anew.
#
#   TRANSOM_LINUX_SOURCE=FILE       the tarball of 6.12, instead of the package's
#   TRANSOM_LINUX_SOURCE_6_1=FILE   the tarball of 6.1
#   TRANSOM_JOBS=N                  parallel jobs, by default one a processor
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: gki-kernel: $*" >&2
	exit 1
}

only_built='' series=6.12 pages=4k
while [ $# -gt 0 ]; do
	case $1 in
	--built) only_built=1 ;;
	--series)
		series=${2:-}
		shift
		;;
	4k | 16k) pages=$1 ;;
	*) fail "no option '$1': see the head of scripts/gki-kernel.sh" ;;
	esac
	shift
done
case $series in
6.12) suffix='' ;;
6.1) suffix=-6.1 ;;
*) fail "no kernel of the series '$series': 6.12 or 6.1" ;;
esac
named=TRANSOM_LINUX_SOURCE${suffix//[-.]/_}
readonly TARBALL=${!named:-/usr/src/linux-source-$series.tar.xz}
readonly FRAGMENT=scripts/guest/gki.config
guests=$PWD/target/guest
source=$guests/linux-source-$series
folder=$guests/aarch64/gki$suffix-$pages
build=$guests/aarch64/build$suffix-$pages

# Android's kernels with 4 KiB pages have three levels of page tables, those with 16 KiB too.
options() {
	case $pages in
	4k) printf '%s\n' CONFIG_ARM64_4K_PAGES=y CONFIG_ARM64_VA_BITS_39=y ;;
	16k) printf '%s\n' CONFIG_ARM64_16K_PAGES=y CONFIG_ARM64_VA_BITS_47=y ;;
	esac
	echo "CONFIG_LOCALVERSION=\"-gki-$pages\""
	cat "$FRAGMENT"
}

source_identity() {
	stat -L -c '%n %s %Y' "$TARBALL" 2>/dev/null || echo "no $TARBALL"
}

identity() {
	source_identity
	options | sha256sum
}

# Where there is no source any more, a kernel that was built from it still serves.
is_current() {
	[ -e "$folder/complete" ] || return
	[ "$(identity)" = "$(cat "$folder/complete")" ] ||
		{ ! [ -e "$TARBALL" ] && [ "$(identity | tail -n 1)" = "$(tail -n 1 "$folder/complete")" ]; }
}

if is_current; then
	echo "$folder"
	exit 0
fi
arguments=$pages
[ "$series" = 6.12 ] || arguments="--series $series $pages"
[ -z "$only_built" ] ||
	fail "the kernel gki$suffix-$pages is not built, or not from what is here now: scripts/gki-kernel.sh $arguments"

cross=
if [ "$(uname -m)" != aarch64 ]; then
	cross=aarch64-linux-gnu-
	command -v "${cross}gcc" >/dev/null || fail "no ${cross}gcc: scripts/prerequisites.sh guest"
fi
for tool in flex bison bc pahole make; do
	command -v "$tool" >/dev/null || fail "no $tool: scripts/prerequisites.sh guest"
done

# Drivers that are never compiled here; their Kconfig files are read.
unpack() {
	[ -r "$TARBALL" ] ||
		fail "no kernel source in $TARBALL: install linux-source-$series (scripts/prerequisites.sh guest)"
	[ -e "$source.unpacked" ] && [ "$(cat "$source.unpacked")" = "$(source_identity)" ] && return
	echo "transom: unpacking $TARBALL" >&2
	rm -rf "$source"
	local unused=() directory
	for directory in gpu infiniband media net/ethernet net/wireless scsi staging usb; do
		unused+=("--exclude=*/drivers/$directory/*.[ch]")
	done
	tar -xf "$TARBALL" -C "$guests" --exclude='*/Documentation/*/*' --exclude='*/boot/dts/*' \
		--exclude='*/sound/*.[ch]' --exclude='*/tools/testing/*' "${unused[@]}"
	[ -e "$source/Makefile" ] || fail "$TARBALL holds no linux-source-$series"
	source_identity >"$source.unpacked"
}

# Who built it where is nobody's business.
export KBUILD_BUILD_USER=transom KBUILD_BUILD_HOST=guest

kernel_make() {
	make -s -C "$source" O="$build" ARCH=arm64 CROSS_COMPILE="$cross" "$@"
}

# What we ask for and kconfig leaves out, for want of something else, is a mistake of ours.
check_options() {
	local line lost=''
	while read -r line; do
		case $line in
		# Each series knows one of the two names.
		CONFIG_BASE_FULL=* | CONFIG_SLUB=*) continue ;;
		CONFIG_*) grep -qxF -- "$line" "$build/.config" || lost+=" $line" ;;
		'# CONFIG_'*' is not set')
			line=${line#\# }
			! grep -q "^${line%% *}=" "$build/.config" || lost+=" (off) ${line%% *}"
			;;
		esac
	done < <(options)
	[ -z "$lost" ] || fail "$series has not, or needs something for:$lost"
}

keep() {
	local release
	release=$(cat "$build/include/config/kernel.release")
	rm -rf "$folder"
	mkdir -p "$folder/boot" "$folder/lib/modules/$release"
	cp "$build/arch/arm64/boot/Image" "$folder/boot/vmlinuz-$release"
	cp "$build/.config" "$folder/boot/config-$release"
	cp "$build"/modules.builtin{,.modinfo} "$folder/lib/modules/$release/"
	: >"$folder/lib/modules/$release/modules.order"
	/sbin/depmod -b "$folder" "$release"
	identity >"$folder/complete"
}

mkdir -p "$guests/aarch64"
# Two at once would build into each other.
exec 9>"$source.lock"
flock 9
unpack
mkdir -p "$build"
options >"$build/wanted.new"
if ! cmp -s "$build/wanted" "$build/wanted.new" || ! [ -e "$build/.config" ]; then
	kernel_make KCONFIG_ALLCONFIG="$build/wanted.new" allnoconfig >&2
	check_options
	mv "$build/wanted.new" "$build/wanted"
fi
echo "transom: building Linux $series for arm64 with pages of ${pages%k} KiB" >&2
kernel_make -j"${TRANSOM_JOBS:-$(nproc)}" Image >&2
keep
echo "$folder"
