#!/bin/sh
# Work on a device with little: a root that cannot be written, /tmp of a few MiB as the only place for files,
# no cgroup hierarchy, no bpffs, no debugfs, one processor. Runs as root in the guest of
# scripts/dist-guest.sh, after packaged.sh.
#
#   device.sh       beside it: transom, transom-agent, steps.sh
set -eu
cd "$(dirname "$0")"
PATH=$PWD:$PATH
# Not in /tmp, which gets full.
SAID=/dev/said
readonly PORT=7003 PLACE_MIB=16 BIG_MIB=8 LEFT_KIB=200 MOST_AGENT_KIB=20480
. ./steps.sh

# The device: what a distribution's start mounts is taken off again.
mkdir -p pages
dd if=/dev/zero of=pages/big bs=1048576 count=0 seek=$BIG_MIB 2>/dev/null
for place in /sys/kernel/tracing /sys/kernel/debug /sys/fs/bpf /sys/fs/cgroup /run /dev/shm /tmp; do
	umount -l "$place" 2>/dev/null || true
done
mount -t tmpfs -o size=${PLACE_MIB}m tmpfs /tmp
# Full-sized segments of Ethernet, so that a transfer is as many events as on a real link.
ip link set lo mtu 1500
mount -o remount,ro "$PWD"
mount -o remount,ro /
trap 'mount -o remount,rw /' EXIT
! touch /written 2>/dev/null || fail "the root can be written"

busybox httpd -f -p "127.0.0.1:$PORT" -h pages &
server=$!
sleep 1
fetch() { # PAGE
	wget -q -O /dev/null "http://127.0.0.1:$PORT/$1" || fail "the server does not answer"
}

# What is refused says these words, and fails.
refused() { # WORDS COMMAND…
	words=$1
	shift
	! "$@" >"$SAID" 2>&1 || fail "'$*' did not fail"
	grep -q -e "$words" "$SAID" || fail "'$*' does not say '$words'"
	cat "$SAID"
	rm -f "$SAID"
}

record() { # FILE [OPTION]…: in the background, its process in $recorder
	file=$1
	shift
	rm -f "$SAID"
	transom record -o "$file" --port $PORT "$@" 2>"$SAID" &
	recorder=$!
	wait_for_words ready
}

# Neither programs in the kernel nor files but these.
nothing_is_left() { # FILE…
	left=100
	until [ "$(programs_in_kernel)" = 0 ]; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || fail "$(programs_in_kernel) programs are left in the kernel"
		sleep 0.1
	done
	[ "$(ls -A /tmp)" = "$*" ] || fail "left in /tmp: $(ls -A /tmp)"
}

say "what is possible"
transom check
transom check | grep -q 'cgroup v2 *not mounted' || fail "check does not say that there is no cgroup hierarchy"
refused 'cgroup' transom record -o /tmp/none.parquet --cgroup /none
refused 'Read-only' transom record -o /none.parquet -d 1

say "a transfer of $BIG_MIB MiB"
record /tmp/transfer.parquet
[ "$(programs_in_kernel)" -gt 0 ] || fail "the kernel's list has no programs while a recording runs"
fetch big
sleep 1
memory "$recorder"
in_kernel "$recorder"
end "$recorder"
cat "$SAID"
grep -q 'no event was lost' "$SAID" || fail "events were lost"
nothing_is_left transfer.parquet
transom explain /tmp/transfer.parquet | head -n 12
transom report /tmp/transfer.parquet -o /tmp/report.html
ls -l /tmp/transfer.parquet /tmp/report.html
rm -f /tmp/report.html

say "the same with a ring of 256 KiB"
record /tmp/small.parquet --ring 256k
fetch big
sleep 1
memory "$recorder"
in_kernel "$recorder"
end "$recorder"
cat "$SAID"
rm -f /tmp/small.parquet /tmp/transfer.parquet

say "events as they happen"
rm -f "$SAID"
transom log --port $PORT --kinds open,close >/tmp/lines 2>"$SAID" &
logger=$!
left=600
until grep -qs close /tmp/lines; do
	left=$((left - 1))
	[ "$left" -gt 0 ] || fail "log shows no connection that closes"
	fetch page
done
end "$logger"
head -n 3 /tmp/lines
rm -f /tmp/lines
nothing_is_left

say "a full /tmp: a recording"
record /tmp/cut.parquet
free=$(df -k /tmp | awk 'END { print $4 }')
dd if=/dev/zero of=/tmp/full bs=1024 count=$((free - LEFT_KIB)) 2>/dev/null
left=50
until grep -qs 'No space left' "$SAID"; do
	left=$((left - 1))
	[ "$left" -gt 0 ] || fail "the recording does not end on a full disk"
	fetch big
done
code=0
wait "$recorder" || code=$?
tail -n 3 "$SAID"
[ "$code" = 1 ] || fail "a recording on a full disk ended with $code"
transom explain /tmp/cut.parquet | head -n 4
refused 'No space left' transom convert /tmp/cut.parquet /tmp/cut.jsonl
rm -f /tmp/full
nothing_is_left cut.parquet
transom convert /tmp/cut.parquet /tmp/cut.jsonl
echo "$(wc -l </tmp/cut.jsonl) events of it can be read"
rm -f /tmp/cut.*

say "the agent, its spool in /tmp"
rm -f "$SAID"
transom-agent --spool /tmp/spool 2>"$SAID" &
agent=$!
wait_for_words 'rows of connections go to'
for _ in $(seq 10); do fetch page; done
sleep 2
memory "$agent"
in_kernel "$agent"
resident=$(awk '/^VmHWM/ { print $2 }' "/proc/$agent/status")
[ "$resident" -le $MOST_AGENT_KIB ] || fail "the agent had more than $MOST_AGENT_KIB kB"
transom ask last 10m port $PORT --spool /tmp/spool | head -n 12

say "a full /tmp: the agent"
free=$(df -k /tmp | awk 'END { print $4 }')
dd if=/dev/zero of=/tmp/full bs=1024 count=$((free + 1)) 2>/dev/null || true
for _ in $(seq 10); do fetch page; done
sleep 2
kill -0 "$agent" || fail "the agent ended"
rm -f /tmp/full
for _ in $(seq 10); do fetch page; done
sleep 2
end "$agent"
cat "$SAID"
transom ask last 10m port $PORT --spool /tmp/spool >/tmp/answer
cat /tmp/answer
grep -q '^connections ' /tmp/answer || fail "no answer"
rm -f /tmp/answer
nothing_is_left spool

kill "$server"
echo "transom: dist-guest: passed on a device, $(uname -m)"
