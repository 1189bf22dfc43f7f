#!/bin/sh
# A transfer recorded in each tier that this kernel has; in a guest of scripts/guest-test.sh.
set -e
. /guest/link.sh
transom check | tee "$RESULTS/check.txt"
for without in none fentry fentry,kprobe; do
	echo
	echo "== TRANSOM_WITHOUT=$without"
	export TRANSOM_WITHOUT=$without
	transom check | grep -E '^ok  (ack|rto|local_congestion)'
	file=$RESULTS/without-$without.parquet
	# What is there before the probes is not what is to be shown; here they take their time to load.
	rm -f "$RESULTS/record.txt"
	transom record -d 9 -o "$file" 2>"$RESULTS/record.txt" &
	until grep -qs ready "$RESULTS/record.txt"; do sleep 0.2; done
	transfer 2
	wait
	cat "$RESULTS/record.txt"
	transom explain "$file"
	# Each end of the connection that carried the data has ACKs and an end.
	transom convert "$file" "$RESULTS/events.jsonl" --force
	for kind in open ack send ca_state retransmit close; do
		n=$(grep -c "\"kind\":\"$kind\"" "$RESULTS/events.jsonl")
		echo "$kind $n"
		[ "$n" -gt 0 ]
	done
	rm "$RESULTS/events.jsonl"
done
