#!/usr/bin/env bash
# Paths and changes of a seed: recorded with both settings, and predicted from the first recording.
#
#   scripts/predictions.sh [OPTION...]     as of `predictions --help`
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=${CARGO_TARGET_DIR:-target}

run=("$TARGET/release/predictions" --seed 20261122 -o "$TARGET/predictions" "$@")
[ "$(id -u)" = 0 ] || run=(sudo "${run[@]}")
"${run[@]}"
