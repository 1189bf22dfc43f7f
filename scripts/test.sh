#!/usr/bin/env bash
# Every test. Those that load probes need root; without, they are run through sudo.
#
# Tests that cannot run here are listed at the end, with what they lack. TRANSOM_REQUIRE=root,chromium,…
# makes them failures.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${TRANSOM_SKIPS:-}" ] || exec scripts/skipped.sh scripts/test.sh

required=${TRANSOM_REQUIRE:-}
with_sudo=no
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null 2>&1; then
	with_sudo=yes
	# Only the second run can have it.
	export TRANSOM_REQUIRE=${required//root/}
fi

# All that fails is told in one run. What is linked with liblinux.a is tested below, where there is
# one (scripts/linux-library.sh).
scripts/cargo-test.py --workspace --exclude transom-netstack --exclude transom-library-stack \
	--exclude transom-simulator --locked
if [ $with_sudo = yes ]; then
	echo "transom: the tests of the kernel side once more, with sudo"
	sed -i '/\troot\t/d' "$TRANSOM_SKIPS"
	TRANSOM_REQUIRE=$required scripts/cargo-test.py --locked -p transom -p transom-agent -p transom-emulator -p transom-lab \
		-p transom-nic -p transom-peer-daemon -p transom-supervisor \
		--config "target.'cfg(all())'.runner = 'sudo -E'"
fi
if [ -e "${CARGO_TARGET_DIR:-target}/linux/$(uname -m)/liblinux.a" ]; then
	TRANSOM_REQUIRE=$required scripts/netstack.sh
else
	echo "transom: no liblinux.a: Linux as a library was not tested (make netstack-test)" >&2
fi
