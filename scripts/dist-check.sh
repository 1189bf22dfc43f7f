#!/usr/bin/env bash
# Builds and packs a commit twice, in two new folders of different names and depths: the same bytes?
#
#   scripts/dist-check.sh [ARCH]…      this machine's architecture
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- "$(dpkg --print-architecture)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR TRANSOM_DIST TRANSOM_PROGRAMS
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
for folder in one a/much/deeper/second; do
	mkdir -p "$work/$folder"
	git archive HEAD | tar -x -C "$work/$folder"
	"$work/$folder/scripts/dist.sh" "$@" >"$work/$folder/log"
done
if ! diff "$work/one/target/packages/SHA256SUMS" "$work/a/much/deeper/second/target/packages/SHA256SUMS"; then
	echo "transom: two builds differ" >&2
	exit 1
fi
cat "$work/one/target/packages/SHA256SUMS"
echo "transom: two builds in two folders are the same"
