#!/usr/bin/env bash
# Prints a folder whose ld.lld a compiler takes with -B and -fuse-ld=lld: that of rustup's compiler, or else one
# with a link to lld from a package.
#
#   scripts/lld.sh        fails where there is neither
set -euo pipefail
cd "$(dirname "$0")/.."

# The first that packs relative relocations.
readonly OLDEST=15

version() {
	"$1" --version 2>/dev/null | sed -n 's/.*LLD \([0-9]*\).*/\1/p'
}

if command -v rustc >/dev/null; then
	own="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
	if [ -e "$own/ld.lld" ]; then
		echo "$own"
		exit
	fi
fi
for name in $(seq -f "ld.lld-%g" 30 -1 "$OLDEST") ld.lld; do
	found=$(command -v "$name") || continue
	found_version=$(version "$found")
	[ "${found_version:-0}" -ge "$OLDEST" ] || continue
	folder=${CARGO_TARGET_DIR:-$PWD/target}/lld
	mkdir -p "$folder"
	ln -sfn "$found" "$folder/ld.lld"
	echo "$folder"
	exit
done
echo "transom: no lld $OLDEST or newer, which links the packages: scripts/prerequisites.sh dist" >&2
exit 1
