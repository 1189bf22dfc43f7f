#!/usr/bin/env bash
# The trace decoder on damaged files, and the tests of all packages in which a property is, with values that
# proptest draws anew: `make test` has the same ones each time.
#
#   TRANSOM_FUZZ_CASES=20000 PROPTEST_CASES=… scripts/fuzz.sh    how many of each; that of each property
#                                                                if PROPTEST_CASES is not set
set -euo pipefail
cd "$(dirname "$0")/.."

TRANSOM_FUZZ_CASES=${TRANSOM_FUZZ_CASES:-20000} cargo test --release --locked -p transom-trace --test fuzz

words=(--lib --bins)
while read -r folder kind name _; do
	package=transom-$folder
	[ "$folder" != cli ] || package=transom
	words+=(-p "$package")
	[ "$kind" = src ] || words+=(--test "$name")
done < <(grep -rlE --include='*.rs' 'proptest!|TestRunner' crates | sed -E 's,^crates/,,; s,\.rs$,,; s,/, ,g')
env -u PROPTEST_RNG_SEED cargo test --release --locked "${words[@]}"
