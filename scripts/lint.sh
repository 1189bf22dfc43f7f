#!/usr/bin/env bash
# Formatting of both languages and clippy. What is not installed is named.
set -euo pipefail
cd "$(dirname "$0")/.."

skipped() { echo "transom: skipped, not installed: $1" >&2; }

if cargo fmt --version >/dev/null 2>&1; then
	cargo fmt --all --check
else
	skipped "cargo fmt"
fi
if cargo clippy --version >/dev/null 2>&1; then
	# Only where `make linux` has been: what links liblinux.a does not build without it.
	netstack="--exclude=transom-netstack --exclude=transom-netstack-run"
	[ -e "${CARGO_TARGET_DIR:-target}/linux/$(uname -m)/liblinux.a" ] && netstack=
	# shellcheck disable=SC2086 # two words are meant, or none
	cargo clippy --workspace $netstack --all-targets --locked -- -D warnings
else
	skipped "cargo clippy"
fi
# Versions of clang-format differ in their taste; this one is the measure.
if command -v clang-format-19 >/dev/null 2>&1; then
	clang-format-19 --dry-run -Werror bpf/*.c bpf/*.h
else
	skipped "clang-format-19"
fi
