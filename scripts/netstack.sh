#!/usr/bin/env bash
# Tests of the library. Those against the host's stack make network namespaces:
# they need root, and go through sudo without it.
set -euo pipefail
cd "$(dirname "$0")/.."

runner=()
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null 2>&1; then
		runner=(--config "target.'cfg(all())'.runner = 'sudo -E'")
	else
		echo "transom: no root and no sudo: the tests against the host's stack skip themselves" >&2
	fi
fi
cargo test --locked -p transom-netstack "${runner[@]}"
