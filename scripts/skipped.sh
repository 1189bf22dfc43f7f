#!/usr/bin/env bash
# Runs a command, then lists the tests that it skipped, and counts them; what failed, and why, comes last.
#
#   scripts/skipped.sh COMMAND…     its tests write to TRANSOM_SKIPS (crates/testbed/src/skip.rs), and
#                                   who runs them to TRANSOM_FAILED (scripts/cargo-test.py)
set -euo pipefail

TRANSOM_SKIPS=$(mktemp)
TRANSOM_FAILED=$(mktemp)
export TRANSOM_SKIPS TRANSOM_FAILED
trap 'rm -f "$TRANSOM_SKIPS" "$TRANSOM_FAILED"' EXIT
status=0
"$@" || status=$?
sort -u "$TRANSOM_SKIPS" | awk -F'\t' '
	{ printf "skipped: %s %s: %s (%s)\n", $1, $2, $3, $4; tests[$1, $2]; lacking[$3]++ }
	END {
		for (each in tests) count++
		printf "transom: %d tests skipped", count
		separator = ", lacking: "
		for (what in lacking) { printf "%s%s (%d)", separator, what, lacking[what]; separator = ", " }
		print ""
	}' >&2
cat "$TRANSOM_FAILED" >&2
exit "$status"
