#!/usr/bin/env bash
# Formatting and lints of every language in the repository. What is not installed is named.
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
	netstack="--exclude=transom-netstack --exclude=transom-library-stack --exclude=transom-simulator"
	[ -e "${CARGO_TARGET_DIR:-target}/linux/$(uname -m)/liblinux.a" ] && netstack=
	# shellcheck disable=SC2086 # two words are meant, or none
	cargo clippy --workspace $netstack --all-targets --locked -- -D warnings
else
	skipped "cargo clippy"
fi
# Versions of clang-format differ in their taste; this one is the measure.
if command -v clang-format-19 >/dev/null 2>&1; then
	git ls-files -z -- "*.c" "*.h" | xargs -0 clang-format-19 --dry-run -Werror
else
	skipped "clang-format-19"
fi
if command -v shellcheck >/dev/null 2>&1; then
	git ls-files -z -- "*.sh" .ci/run | xargs -0 shellcheck --severity=warning --external-sources
else
	skipped "shellcheck"
fi
if command -v pyflakes3 >/dev/null 2>&1; then
	git ls-files -z -- "*.py" | xargs -0 pyflakes3
else
	skipped "pyflakes3"
fi
# One binary inside a package of npm; its rules are in biome.json.
if command -v npx >/dev/null 2>&1; then
	npx --yes @biomejs/biome@2.3.8 lint --error-on-warnings
else
	skipped "npx, for biome"
fi
