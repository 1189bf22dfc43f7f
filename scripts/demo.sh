#!/usr/bin/env bash
# The testbed's first experiment: two phones on emulated air upload to a server
# 64 ms away, recorded, explained and drawn (experiments/two-phones.toml).
# Where there is no root, a transfer over loopback instead.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TARGET=${CARGO_TARGET_DIR:-target}
readonly TRANSOM=$TARGET/release/transom
readonly OUT=$TARGET/demo

say() { echo "demo: $*"; }

become_root() {
	[ "$(id -u)" = 0 ] && return
	if command -v sudo >/dev/null 2>&1; then
		say "probes and network namespaces need root: sudo $0"
		exec sudo CARGO_TARGET_DIR="$TARGET" "$0"
	fi
	say "no root and no sudo"
}

# RECORDING → its report beside it, and what it says.
tell() {
	echo
	"$TRANSOM" explain "$1"
	"$TRANSOM" report "$1" --force -o "${1%.parquet}.html" >/dev/null
}

bench() {
	local phone run=$OUT/two-phones/runs/only/1
	"$TRANSOM" lab run two-phones --fresh -o "$OUT"
	for phone in slow fast; do
		tell "$run/trace-$phone.parquet"
	done
	echo
	say "both phones:     $OUT/two-phones/report.html   (open it in a browser)"
	say "each of them:    $run/trace-slow.html, trace-fast.html"
	say "their event logs lie beside: transom convert, explain and report read them"
}

loopback() {
	local port=5201 recording=$OUT/upload.parquet
	say "no emulated air without root: samples of a transfer over loopback, where nothing is lost"
	iperf3 --server --one-off --port $port >/dev/null 2>&1 &
	server=$!
	trap 'kill $server 2>/dev/null || true' EXIT
	sleep 0.5
	"$TRANSOM" record --force -o "$recording" --port $port -d 6s &
	iperf3 -c 127.0.0.1 -p $port -t 5 -b 200M >/dev/null
	wait $!
	tell "$recording"
	say "the report: ${recording%.parquet}.html   (open it in a browser)"
}

# What sudo made is the user's, however this ends.
give_back() {
	[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$OUT"
}

become_root
mkdir -p "$OUT"
if [ "$(id -u)" = 0 ]; then
	trap give_back EXIT
	bench
else
	loopback
fi
