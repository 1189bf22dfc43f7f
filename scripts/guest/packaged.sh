#!/bin/sh
# The packed programs on another kernel and a small machine, with nothing but busybox: what it offers, a
# recording, the agent, and their memory. Runs as root in the guest of scripts/dist-guest.sh.
#
#   packaged.sh       beside it: transom, transom-agent, transom-fleet, steps.sh
set -eu
cd "$(dirname "$0")"
PATH=$PWD:$PATH
readonly CONNECTIONS=20 MOST_AGENT_KIB=20480

. ./steps.sh

# Connections over loopback, one after the other, each with a page of 200 kB.
mkdir -p pages
dd if=/dev/zero of=pages/page bs=1000 count=200 2>/dev/null
connect() { # PORT
	busybox httpd -f -p "127.0.0.1:$1" -h pages &
	server=$!
	sleep 1
	for _ in $(seq $CONNECTIONS); do
		wget -q -O /dev/null "http://127.0.0.1:$1/page" || fail "the server does not answer"
	done
	kill "$server"
}

say "Linux $(uname -r), $(uname -m), $(awk '/^MemTotal/ { print $2 }' /proc/meminfo) kB: $(transom --version)"
transom check

say "a recording"
rm -f "$SAID" recorded.parquet
# A program that a script starts in the background ignores SIGINT, unless it asks for it, as these do.
transom record -o recorded.parquet --port 7001 2>"$SAID" &
recorder=$!
wait_for_words ready
connect 7001
sleep 2
memory "$recorder"
end "$recorder"
cat "$SAID"
grep -q 'no event was lost' "$SAID" || fail "events were lost"
transom explain recorded.parquet | head -n 12
transom convert recorded.parquet events.jsonl --force
count() { # KIND LEAST
	n=$(grep -c "\"kind\":\"$1\"" events.jsonl || true)
	echo "$1 $n"
	[ "$n" -ge "$2" ] || fail "fewer than $2 events: $1"
}
# Both ends are here; only one of them sends.
count open $((2 * CONNECTIONS))
count close $((2 * CONNECTIONS))
count ack "$CONNECTIONS"
count send "$CONNECTIONS"

say "the agent"
rm -f "$SAID"
transom-agent --spool /tmp/spool 2>"$SAID" &
agent=$!
wait_for_words 'rows of connections go to'
connect 7002
sleep 2
memory "$agent"
resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$agent/status")
end "$agent"
cat "$SAID"
rows=$(for file in /tmp/spool/connections-*.parquet; do transom explain --json "$file"; done |
	tr '{' '\n' | grep '"kind":"end"' | grep -c '"service":7002') || true
echo "$CONNECTIONS connections, $rows rows"
[ "$rows" = $((2 * CONNECTIONS)) ] || fail "each connection has two ends here"
[ "$resident" -le $MOST_AGENT_KIB ] || fail "the agent has more than $MOST_AGENT_KIB kB"

say "the shipper"
transom-fleet --version
mkdir /tmp/tables
transom-fleet ship --once --host guest --spool /tmp/spool --to file:///tmp/tables
# What the shipper says of this machine itself comes on top.
landed=$(find /tmp/tables -name 'guest-*.parquet' ! -path '*/hosts/*' | wc -l)
[ "$landed" = "$(find /tmp/spool -name '*.parquet' | wc -l)" ] || fail "each file lands once: $(find /tmp/tables /tmp/spool)"
echo "transom: dist-guest: passed on $(uname -m)"
