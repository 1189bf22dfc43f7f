#!/usr/bin/env bash
# Every experiment (about four hours), then docs/results.md with its pictures.
#
#   scripts/experiments.sh [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TRANSOM=${CARGO_TARGET_DIR:-target}/release/transom
readonly OUT=results

run=("$TRANSOM" lab run --all "$@" -o "$OUT")
[ "$(id -u)" = 0 ] || run=(sudo "${run[@]}")
"${run[@]}"
"$TRANSOM" lab report "$OUT"/*/ --markdown docs/results.md
