#!/usr/bin/env bash
# What Linux as a library costs beside the host's stack, as Markdown tables:
# bench-netstack.sh [rate] [phone] [bulk] [multipath] [connect] [start]. Needs root, and
# `make linux` before.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked -p transom-library-stack
program=${CARGO_TARGET_DIR:-target}/release/transom-netstack
if [ "$(id -u)" = 0 ]; then
	python3 bench/netstack.py "$program" "$@"
else
	sudo python3 bench/netstack.py "$program" "$@"
fi
