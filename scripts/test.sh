#!/usr/bin/env bash
# Every test. Those that load probes need root; without, they are run through sudo.
#
# Tests that cannot run here are listed at the end, with what they lack. TRANSOM_REQUIRE=root,chromium,…
# makes them failures.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${TRANSOM_SKIPS:-}" ] || exec scripts/skipped.sh scripts/test.sh

# What a property meets is no matter of chance here: a failure that it draws is kept and comes back each
# time, alone as well. `make fuzz` draws anew.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

required=${TRANSOM_REQUIRE:-}
with_sudo=no
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null 2>&1; then
	with_sudo=yes
	# Only the second run can have it.
	export TRANSOM_REQUIRE=${required//root/}
fi

# What is linked with liblinux.a is built and tested where there is one (scripts/linux-library.sh).
workspace=(--workspace)
if [ -e "${CARGO_TARGET_DIR:-target}/linux/$(uname -m)/liblinux.a" ]; then
	scripts/netstack.sh --c
	export TRANSOM_REQUIRE=${TRANSOM_REQUIRE:-},transom-netstack,transom-simulate
	required=$required,transom-netstack,transom-simulate
else
	echo "transom: no liblinux.a: Linux as a library is not tested (make netstack-test)" >&2
	workspace+=(--exclude transom-netstack --exclude transom-library-stack --exclude transom-simulator)
fi

scripts/cargo-test.py "${workspace[@]}" --locked
if [ $with_sudo = yes ]; then
	lacking_root=()
	for package in $(awk -F'\t' '$3 == "root" { print $5 }' "$TRANSOM_SKIPS" | sort -u); do
		lacking_root+=(-p "$package")
	done
	[ ${#lacking_root[@]} -gt 0 ] || exit 0
	echo "transom: the packages with tests that need root once more, with sudo"
	sed -i '/\troot\t/d' "$TRANSOM_SKIPS"
	TRANSOM_REQUIRE=$required scripts/cargo-test.py --runner "sudo -E" --locked "${lacking_root[@]}"
fi
