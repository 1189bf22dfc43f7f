#!/usr/bin/env bash
# Tests of the library.
#
#   scripts/netstack.sh            in C with sanitizers, then in Rust, then programs on it
#   scripts/netstack.sh aarch64    in C, for another machine under qemu-user
#
# Those against the host's stack make network namespaces: they need root, and
# go through sudo without it.
set -euo pipefail
cd "$(dirname "$0")/.."

machine=${1:-$(uname -m)}
target=${CARGO_TARGET_DIR:-target}/linux/$machine
[ -e "$target/liblinux.a" ] || {
	echo "transom: there is no $target/liblinux.a: make linux (or scripts/linux-library.sh $machine)" >&2
	exit 1
}

if [ "$machine" != "$(uname -m)" ]; then
	"$machine-linux-gnu-gcc" -O1 -g -Wall -static -o "$target/loopback" \
		linux/test/loopback.c "$target/liblinux.a"
	exec "qemu-$machine-static" "$target/loopback"
fi

cc -O1 -g -Wall -fsanitize=address,undefined -o "$target/loopback" \
	linux/test/loopback.c "$target/liblinux.a"
"$target/loopback"

runner=()
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null 2>&1; then
		runner=(--config "target.'cfg(all())'.runner = 'sudo -E'")
	else
		echo "transom: no root and no sudo: the tests against the host's stack skip themselves" >&2
	fi
fi
cargo test --locked -p transom-netstack -p transom-netstack-run "${runner[@]}"
