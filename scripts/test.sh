#!/usr/bin/env bash
# Every test. Those that load probes need root; without, they are run through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is linked with liblinux.a is tested below, where there is one (scripts/linux-library.sh).
cargo test --workspace --exclude transom-netstack --exclude transom-netstack-run --locked
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "transom: no root and no sudo: the tests of the kernel side skipped themselves" >&2
	else
		echo "transom: the tests of the kernel side once more, with sudo"
		cargo test --locked -p transom -p transom-emulator -p transom-lab -p transom-nic -p transom-supervisor --config "target.'cfg(all())'.runner = 'sudo -E'"
	fi
fi
if [ -e "${CARGO_TARGET_DIR:-target}/linux/$(uname -m)/liblinux.a" ]; then
	scripts/netstack.sh
else
	echo "transom: no liblinux.a: Linux as a library was not tested (make netstack-test)" >&2
fi
