#!/usr/bin/env bash
# The measurements behind docs/*.md that need no privilege.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo run --release --locked -p transom-trace --example measure
cargo test --release --locked -p transom-view --test report size -- --nocapture
cargo test --release --locked -p transom-view --lib an_event_is_cheap -- --nocapture
