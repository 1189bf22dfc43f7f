#!/usr/bin/env bash
# Every situation of crates/situations/situations.toml: built, recorded, judged.
#
#   scripts/situations.sh [OPTION...]     as of `situations --help`
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=${CARGO_TARGET_DIR:-target}

run=("$TARGET/release/situations" -o "$TARGET/situations" "$@")
[ "$(id -u)" = 0 ] || run=(sudo "${run[@]}")
"${run[@]}"
