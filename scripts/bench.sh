#!/usr/bin/env bash
# What recording, the agent and `steady` cost (bench/run.py, bench/agent.py, bench/beside.py,
# bench/steady.py, need root), then what reading and drawing cost, which need no privilege.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --locked -p transom -p transom-agent
cargo build --release --locked -p transom-monitor --example load
for part in run agent beside steady; do
	if [ "$(id -u)" = 0 ]; then
		python3 "bench/$part.py"
	else
		sudo CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}" python3 "bench/$part.py"
	fi
done
cargo run --release --locked -p transom-trace --example measure_trace
cargo test --release --locked -p transom-view --test report size -- --nocapture
cargo test --release --locked -p transom-view --lib an_event_is_cheap -- --nocapture
