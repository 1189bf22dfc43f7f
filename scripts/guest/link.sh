#!/bin/sh
# Two hosts, `near` and `far`, and between them 20 Mbit/s with a queue of 30 kB.
ip netns add near
ip netns add far
ip link add eth0 netns near type veth peer name eth0 netns far
ip -n near addr add 10.0.0.1/24 dev eth0
ip -n far addr add 10.0.0.2/24 dev eth0
for host in near far; do
	ip -n $host link set lo up
	ip -n $host link set eth0 up
done
tc -n near qdisc add dev eth0 root tbf rate 20mbit burst 10k limit 30k

# Sends for so many seconds, and says what came through.
transfer() { # SECONDS
	ip netns exec far iperf3 -s -1 -D >/dev/null
	sleep 1
	ip netns exec near iperf3 -c 10.0.0.2 -t "$1" | grep sender
}
