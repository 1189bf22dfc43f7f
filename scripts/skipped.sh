#!/usr/bin/env bash
# Lists the tests that were skipped, and counts them.
#
#   scripts/skipped.sh FILE     that tests wrote (TRANSOM_SKIPS, crates/testbed/src/skip.rs)
set -euo pipefail

sort -u "$1" | awk -F'\t' '
	{ printf "skipped: %s %s: %s (%s)\n", $1, $2, $3, $4; tests[$1, $2]; lacking[$3]++ }
	END {
		for (each in tests) count++
		printf "transom: %d tests skipped", count
		separator = ", lacking: "
		for (what in lacking) { printf "%s%s (%d)", separator, what, lacking[what]; separator = ", " }
		print ""
	}' >&2
