#!/usr/bin/env bash
# Builds the programs that `make dist` packs: statically, but transom-drill.
#
#   scripts/dist-build.sh ARCH        amd64 or arm64; prints the folder of the programs
#
# The programs are the same, byte for byte, from whatever folder they are built (scripts/dist-check.sh):
# no name of a folder stays in them. They need the same versions of cargo, clang and cc for that.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*)
	echo "transom: dist-build.sh ARCH: amd64 or arm64" >&2
	exit 2
	;;
esac
triple=$machine-unknown-linux-gnu
cargo_home=${CARGO_HOME:-$HOME/.cargo}

# Equal functions are kept once, relative relocations packed. With these flags lld links arm64, too.
lld=$(scripts/lld.sh)
small="-C link-arg=-B$lld -C link-arg=-fuse-ld=lld"
small+=" -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs"
names="--remap-path-prefix=$PWD=/transom --remap-path-prefix=$cargo_home=/cargo"
export TRANSOM_CFLAGS="-ffile-prefix-map=$PWD=/transom -ffile-prefix-map=$cargo_home=/cargo"

link=+crt-static

build() { # RUSTFLAGS ARGUMENT…
	export TRANSOM_RUSTFLAGS="$1 $small $names" TRANSOM_LINK=$link
	shift
	if [ "$machine" = "$(uname -m)" ]; then
		# With a target named, build scripts and macros are not linked statically, which they cannot be.
		RUSTFLAGS="-C target-feature=$link $TRANSOM_RUSTFLAGS" CFLAGS="$TRANSOM_CFLAGS" \
			cargo build --locked "$@" --target "$triple" >&2
	else
		scripts/cross.sh "$machine" build --locked "$@" >&2
	fi
}

# A name from the repository's folder, where cargo links: options with the folder's own name would be part of each symbol.
aborting="-C force-unwind-tables=no -C link-arg=-Wl,-T,scripts/dist-link.ld -C link-arg=-Wl,--no-eh-frame-hdr"
build "$aborting" --profile dist -p transom -p transom-agent --bin transom --bin transom-agent
# By itself: features that it wants of a library would make the other two larger.
build "" --profile dist-fleet -p transom-fleet --bin transom-fleet
# Zenoh looks the router's name up with the C library, whose look-up works in no static program.
link=-crt-static
build "" --profile dist-fleet -p transom-drill --bin transom-drill
folder=${CARGO_TARGET_DIR:-target}/$triple
ln -f "$folder/dist-fleet/transom-fleet" "$folder/dist-fleet/transom-drill" "$folder/dist/"
echo "$folder/dist"
