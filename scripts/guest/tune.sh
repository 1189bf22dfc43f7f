# `steady` and a cap on this kernel, and nothing left of them; in a guest of scripts/guest-test.sh.
set -e
. /guest/link.sh
available=/proc/sys/net/ipv4/tcp_available_congestion_control
before=$(cat $available)
transom tune set --algorithm steady --cap 20 --remote 10.0.0.0/24
cat $available
transfer 4 &
sleep 3
transom tune status
ip netns exec near ss -tin dst 10.0.0.2 | tee /tmp/sockets
grep -q 'steady.*cwnd:20' /tmp/sockets
wait
transom tune clear
cat $available
[ "$(cat $available)" = "$before" ]
[ ! -e /run/transom/bpf ]
