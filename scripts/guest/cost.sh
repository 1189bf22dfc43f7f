#!/bin/sh
# What recording and the agent take from a transfer, counted in instructions: in a guest with one
# processor whose clock counts them. Runs as root in the guest of scripts/guest-cost.sh.
#
#   cost.sh ROUNDS       in the folder with transom, transom-agent and load
#
# Prints a line for each measurement: LOAD WITH RATE, which is per 10^9 instructions.
set -e

measure() { # WITH
	for load in 'bulk 1' 'echo 2' 'connect 1'; do
		# shellcheck disable=SC2086 # two words are meant: what moves, and how many connections
		set -- "$1" $load
		echo "@ $2 $1 $(./load "$2" 1 "$3")"
	done
}

wait_for_words() { # WORDS FILE
	until grep -qs "$1" "$2"; do sleep 0.2; done
}

# The loads beside a recording without these tiers, if that leaves another one than before.
record() { # TIERS
	export TRANSOM_WITHOUT="$1"
	tier=$(./transom check | sed -n 's/^ok  ack  *\([a-z]*\).*/\1/p')
	if [ "$tier" != "$last" ]; then
		./transom record -d 600 -o trace.parquet >/dev/null 2>record.txt &
		wait_for_words ready record.txt
		measure "record-$tier"
		kill -INT $!
		wait $! || true
		grep -h -e ' events' -e lost record.txt
		rm -rf trace.parquet record.txt
	fi
	last=$tier
	unset TRANSOM_WITHOUT
}

uname -r
# The first transfer after the start of the guest is disturbed by it.
./load bulk 1 1 >/dev/null
round=0
rounds=$1
while [ "$round" -lt "$rounds" ]; do
	round=$((round + 1))
	measure alone
	last=''
	record ''
	record fentry
	record fentry,kprobe
	./transom-agent --spool spool >agent.txt 2>&1 &
	wait_for_words 'rows of connections go to' agent.txt
	sleep 3
	measure agent
	kill $!
	wait $! || true
	cat agent.txt
	rm -rf spool agent.txt
done
