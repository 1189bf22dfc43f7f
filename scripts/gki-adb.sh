#!/usr/bin/env bash
# `transom android` and a phone-like guest (docs/gki.md) with Android's adbd, over adb: check, push, a
# recording of traffic there, one that outlives its connection to adb, and nothing left behind.
#
#   scripts/gki-adb.sh [KERNEL]           gki-4k (default) or gki-16k
#
# TRANSOM_PROGRAMS is a folder with arm64's static transom; by default it is built. What was said and
# recorded is kept in target/guest/adb-KERNEL.
set -euo pipefail
cd "$(dirname "$0")/.."

kernel=${1:-gki-4k}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
programs=${TRANSOM_PROGRAMS:-$target/aarch64-unknown-linux-gnu/release}
[ -n "${TRANSOM_PROGRAMS:-}" ] || scripts/cross.sh aarch64 build --release --locked -p transom --bin transom
[ -e "$target/debug/transom" ] || cargo build --locked -p transom --bin transom
adbd=$(scripts/adbd.sh aarch64)
kept=$target/guest/adb-$kernel
rm -rf "$kept"
mkdir -p "$kept"

port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
export ANDROID_ADB_SERVER_PORT=$((port + 1)) HOME=$kept ANDROID_SERIAL=127.0.0.1:$port
guest=
end() {
	adb kill-server >/dev/null 2>&1 || true
	[ -z "$guest" ] || kill "$guest" 2>/dev/null || true
}
trap end EXIT
mke2fs -q -t ext4 -O ^has_journal -d "$adbd" "$kept/adbd.disk" 128M >/dev/null
scripts/guest.sh --arch aarch64 --kernel "$kernel" --root android --limit 900 --forward "$port:5555" \
	--results "$kept" --disk "$kept/adbd.disk:/data/adbd" --file scripts/guest/android-adbd.sh \
	-- sh android-adbd.sh >"$kept/guest.txt" 2>&1 &
guest=$!

fail() {
	echo "transom: gki-adb: $*; see $kept" >&2
	exit 1
}

say() { echo "== $*"; }

transom() { "$target/debug/transom" "$@"; }

phone() { # COMMAND…
	local command=$1
	shift
	transom android "$command" --program "$programs/transom" "$@"
}

connected() {
	adb connect "$ANDROID_SERIAL" 2>/dev/null | grep -q connected && [ "$(adb shell echo there 2>/dev/null)" = there ]
}

wait_for() { # COMMAND…
	local left=120
	until "$@"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || fail "waited in vain for: $*"
		kill -0 "$guest" 2>/dev/null || fail "the guest has ended"
		sleep 1
	done
}

# A transfer over the guest's loopback, for whole seconds.
upload() { # SECONDS
	# This nc ends with its standard input.
	adb shell "sleep $(($1 + 5)) | nc -l -p 7001 >/dev/null & sleep 1; timeout $1 nc 127.0.0.1 7001 </dev/zero" || true
}

count() { # TRACE KIND
	transom convert "$1" "$kept/events.jsonl" --force 2>/dev/null
	grep -c "\"kind\":\"$2\"" "$kept/events.jsonl" || true
}

wait_for connected
say "check"
phone check | tee "$kept/check.txt"
grep -Eq '^ok  root' "$kept/check.txt" || fail "it is not root"
grep -Eq '^ok  SELinux +enforcing' "$kept/check.txt" || fail "SELinux does not enforce"
grep -Eq '^ok  ack +kprobe' "$kept/check.txt" || fail "no kprobe tier"

say "record"
phone push
phone record -o "$kept/followed.parquet" --for 15s --port 7001 2>"$kept/followed.txt" &
recorder=$!
wait_for grep -q ready "$kept/followed.txt"
upload 3
wait "$recorder" || fail "the recording failed"
say "$(count "$kept/followed.parquet" ack) ACKs"
[ "$(count "$kept/followed.parquet" ack)" -gt 50 ] || fail "the transfer is not in the trace"
transom explain "$kept/followed.parquet"

say "record on, without adb"
phone record --detach --port 7001
adb disconnect "$ANDROID_SERIAL" >/dev/null
sleep 3
wait_for connected
upload 3
phone pull -o "$kept/detached.parquet"
say "$(count "$kept/detached.parquet" ack) ACKs"
[ "$(count "$kept/detached.parquet" ack)" -gt 50 ] || fail "the transfer is not in the trace"

say "nothing is left"
phone push --remove
left=$(adb shell ls /data/local/tmp)
[ "$left" = android-adbd.sh ] || fail "left behind: $left"
adb shell touch /data/local/tmp/done || true
wait "$guest" || fail "the guest ended with $?"
guest=
! grep 'avc: *denied' "$kept/dmesg.txt" || fail "SELinux denied something"
echo "transom: gki-adb: passed on $kernel"
