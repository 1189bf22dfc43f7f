#!/bin/sh
# `steady` and a cap on this kernel, and nothing left of them; in a guest of scripts/guest-test.sh.
set -e
. /guest/link.sh
available=/proc/sys/net/ipv4/tcp_available_congestion_control
before=$(cat $available)
transom tune set --algorithm steady --target 20 --cap 20 --rtt 0ms.. --remote 10.0.0.0/24
cat $available
transfer 20 &
# A guest may take its time until the window has reached the cap.
for _ in $(seq 10); do
	sleep 1
	ip netns exec near ss -tin dst 10.0.0.2 >/tmp/sockets
	grep -q 'steady.*cwnd:20' /tmp/sockets && break
done
cat /tmp/sockets
grep -q 'steady.*cwnd:20' /tmp/sockets
transom tune status | tee /tmp/status
grep -q 'iperf3: steady, cap 20' /tmp/status
wait
transom tune clear
cat $available
[ "$(cat $available)" = "$before" ]
[ ! -e /run/transom/bpf ]
