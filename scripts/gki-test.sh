#!/usr/bin/env bash
# Transom on an arm64 kernel and a root as a phone has them (docs/gki.md).
#
#   scripts/gki-test.sh [KERNEL]…     by default gki-4k and gki-16k
#
# On each kernel, with SELinux enforcing: the same bpf() call in a domain that may and in one that may
# not; a transfer recorded with kprobes and with tracepoints; the agent for a minute. The traces are
# then read here. What was printed and recorded is kept in target/guest/test-KERNEL.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
programs=$target/aarch64-unknown-linux-gnu/release
failed=0

scripts/cross.sh aarch64 build --release --locked -p transom -p transom-agent --bin transom --bin transom-agent
scripts/cross.sh aarch64 build --release --locked -p transom-monitor --example load
cargo build --locked -p transom --bin transom
transom=$target/debug/transom

# Each trace has the events of a transfer with losses, and its probes were of the tier wanted.
read_here() { # FOLDER TIER
	local kind n
	"$transom" explain "$1/$2.parquet"
	"$transom" convert "$1/$2.parquet" "$1/$2.jsonl" --force
	for kind in open ack send ca_state retransmit sack close; do
		n=$(grep -c "\"kind\":\"$kind\"" "$1/$2.jsonl" || true)
		echo "$2 $kind $n"
		[ "$n" -gt 0 ] || return 1
	done
	rm "$1/$2.jsonl"
}

[ $# -gt 0 ] || set -- gki-4k gki-16k
for kernel in "$@"; do
	kept=target/guest/test-$kernel
	rm -rf "$kept"
	mkdir -p "$kept"
	status=0
	{
		scripts/guest.sh --arch aarch64 --kernel "$kernel" --root android --limit 900 --results "$kept" \
			--file "$programs/transom" --file "$programs/transom-agent" --file "$programs/examples/load" \
			--file scripts/guest/android-test.sh -- sh android-test.sh &&
			read_here "$kept" kprobe && read_here "$kept" tracepoint &&
			"$transom" ask last 60m --spool "$kept/agent"
	} >"$kept/test.txt" 2>&1 || status=$?
	if [ "$status" = 0 ]; then
		echo "ok      $kernel"
	else
		echo "FAILED  $kernel: status $status, see $kept/test.txt"
		failed=1
	fi
done
exit "$failed"
