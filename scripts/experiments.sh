#!/usr/bin/env bash
# Every experiment (about four hours), then docs/results.md with its pictures.
#
#   scripts/experiments.sh [--quick]
#
# In virtual time (minutes, no root) all that can be, then docs/virtual.md if
# there are results of real time to stand beside.
#
#   scripts/experiments.sh --virtual
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TRANSOM=${CARGO_TARGET_DIR:-target}/release/transom
readonly OUT=results

if [ "${1:-}" = --virtual ]; then
	"$TRANSOM" lab run --all "$@" -o "$OUT-virtual"
	[ -d "$OUT" ] || exit 0
	exec "$TRANSOM" lab report --beside "$OUT" "$OUT-virtual" --markdown docs/virtual.md
fi
run=("$TRANSOM" lab run --all "$@" -o "$OUT")
[ "$(id -u)" = 0 ] || run=(sudo "${run[@]}")
"${run[@]}"
"$TRANSOM" lab report "$OUT"/*/ --markdown docs/results.md
