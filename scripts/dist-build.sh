#!/usr/bin/env bash
# Builds the programs that `make dist` packs, statically.
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

# Equal functions are kept once, relative relocations packed. With these flags rust-lld links arm64, too.
lld="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
small="-C force-unwind-tables=no -C link-arg=-B$lld -C link-arg=-fuse-ld=lld"
small+=" -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs"
export TRANSOM_RUSTFLAGS="$small --remap-path-prefix=$PWD=/transom --remap-path-prefix=$cargo_home=/cargo"
export TRANSOM_CFLAGS="-ffile-prefix-map=$PWD=/transom -ffile-prefix-map=$cargo_home=/cargo"
build=(build --profile dist --locked -p transom -p transom-agent --bin transom --bin transom-agent)
if [ "$machine" = "$(uname -m)" ]; then
	# With a target named, build scripts and macros are not linked statically, which they cannot be.
	RUSTFLAGS="-C target-feature=+crt-static $TRANSOM_RUSTFLAGS" CFLAGS="$TRANSOM_CFLAGS" \
		cargo "${build[@]}" --target "$triple" >&2
else
	scripts/cross.sh "$machine" "${build[@]}" >&2
fi
echo "${CARGO_TARGET_DIR:-target}/$triple/dist"
