#!/usr/bin/env bash
# Tests of the library.
#
#   scripts/netstack.sh            in C with sanitizers, then in Rust, then programs on it
#   scripts/netstack.sh --c        in C alone
#   scripts/netstack.sh aarch64    for another machine: in C and in Rust under qemu-user, then all
#                                  of it on a kernel of that machine (scripts/netstack-guest.sh)
#
# Those against the host's stack make network namespaces: they need root, and
# go through sudo without it.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${TRANSOM_SKIPS:-}" ] || exec scripts/skipped.sh scripts/netstack.sh "$@"

c_alone=
if [ "${1:-}" = --c ]; then
	c_alone=1
	shift
fi
machine=${1:-$(uname -m)}
target=${CARGO_TARGET_DIR:-target}/linux/$machine
[ -e "$target/liblinux.a" ] || {
	echo "transom: there is no $target/liblinux.a: make linux (or scripts/linux-library.sh $machine)" >&2
	exit 1
}

# What a run of the deterministic test sends, in short. Arguments: a cargo.
digest() {
	TRANSOM_TEST_DIGEST=1 "$@" test --release --locked -p transom-netstack --test deterministic -- \
		--nocapture another_process_with_other_addresses | grep -o 'digest=[0-9a-f]*'
}

# One scenario simulated here and there leaves the same traces and the same log, byte for byte.
simulated_alike() {
	local out=$target/alike name
	rm -rf "$out"
	mkdir -p "$out"
	cargo run --quiet --release --locked -p transom-simulator -- \
		run crates/simulator/tests/machines.json -o "$out/here"
	scripts/cross.sh "$machine" run --quiet --release --locked -p transom-simulator -- \
		run "crates/simulator/tests/machines.json" -o "$out/there"
	for name in emulator.json trace-a.parquet trace-b.parquet; do
		cmp "$out/here/$name" "$out/there/$name" || {
			echo "transom: one scenario, other bytes in $name on $(uname -m) and $machine" >&2
			return 1
		}
	done
	echo "transom: one scenario, the same bytes on $(uname -m) and $machine"
}

foreign() {
	"$machine-linux-gnu-gcc" -O1 -g -Wall -static -o "$target/loopback" \
		linux/test/loopback.c "$target/liblinux.a"
	"qemu-$machine-static" "$target/loopback"
	# These two ask for the process's memory, which is qemu's here, and for a second process.
	scripts/cross.sh "$machine" test --release --locked -p transom-netstack -- \
		--skip a_kernel_that_ended_leaves_nothing_in_the_process \
		--skip another_process_with_other_addresses_sends_the_same_packets
	local here there
	here=$(digest cargo)
	there=$(digest scripts/cross.sh "$machine")
	[ "$here" = "$there" ] || {
		echo "transom: one seed, other packets: $here on $(uname -m), $there on $machine" >&2
		return 1
	}
	echo "transom: one seed, the same packets on $(uname -m) and $machine ($here)"
	simulated_alike
	scripts/netstack-guest.sh "$machine"
}

if [ "$machine" != "$(uname -m)" ]; then
	foreign
	exit
fi

# A library in C. Arguments: its series' suffix, and how the compiler is to rename its functions.
loopback() {
	local suffix=$1
	shift
	cc -O1 -g -Wall -fsanitize=address,undefined "$@" -o "$target/loopback$suffix" \
		linux/test/loopback.c "$target/liblinux$suffix.a"
	"$target/loopback$suffix"
}

loopback ''
if [ -e "$target/liblinux-6.1.a" ]; then
	mapfile -t renamed < <(sed -n 's/^LIBRARY_CALL .*\(linux_\([a-z_]*\)\)(.*/-D\1=linux61_\2/p' \
		linux/arch/include/library/linux.h)
	loopback -6.1 "${renamed[@]}"
fi
[ -z "$c_alone" ] || exit 0

runner=()
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null 2>&1; then
		runner=(--runner "sudo -E")
	else
		echo "transom: no root and no sudo: the tests against the host's stack skip themselves" >&2
	fi
fi
scripts/cargo-test.py "${runner[@]}" --locked -p transom-netstack -p transom-library-stack -p transom-simulator
# Those of `transom` that start the programs that were built just now.
export TRANSOM_REQUIRE=${TRANSOM_REQUIRE:-},transom-netstack,transom-simulate
scripts/cargo-test.py "${runner[@]}" --locked -p transom --test lab_stacks --test run_command --test lab_virtual \
	--test lab_grid --test whatif --test tune_suggest --test docs
