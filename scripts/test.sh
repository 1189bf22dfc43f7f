#!/usr/bin/env bash
# Every test. Those that load probes need root; without, they are run through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is linked with liblinux.a has its own tests (make netstack-test), after minutes of build.
cargo test --workspace --exclude transom-netstack --exclude transom-netstack-run --locked
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "transom: no root and no sudo: the tests of the kernel side skipped themselves" >&2
		exit 0
	fi
	echo "transom: the tests of the kernel side once more, with sudo"
	cargo test --locked -p transom -p transom-emulator -p transom-lab -p transom-nic -p transom-supervisor --config "target.'cfg(all())'.runner = 'sudo -E'"
fi
