#!/system/bin/sh
# shellcheck shell=ksh
# What recording and the agent take from a transfer, counted in instructions: in a guest with one
# processor whose clock counts them (scripts/guest.sh --clock instructions; docs/gki.md).
set -e
cd /data/local/tmp

measure() { # NAME MODE CONNECTIONS: the rate, which is per 10^9 instructions
	print "$1 $2 $(./load "$2" 1 "$3")"
}

for load in 'bulk 1' 'echo 2'; do
	measure bare $load
	./transom record -d 600 -o trace.parquet >/dev/null 2>record.txt &
	until grep -qs ready record.txt; do sleep 0.2; done
	measure record $load
	kill -INT $!
	wait $! || true
	grep -h ' events' record.txt
	rm -rf trace.parquet record.txt spool
	./transom-agent --spool spool >agent.txt 2>&1 &
	sleep 3
	measure agent $load
	kill $!
	wait $! || true
done
