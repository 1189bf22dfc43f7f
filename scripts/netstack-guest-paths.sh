#!/bin/sh
# In the guest of scripts/netstack-guest.sh: unmodified programs fetch a file over
# two paths from this kernel's MPTCP. The client's kernel has no part in it.
set -eu

fail() {
	echo "FAILED: $*"
	exit 1
}

ip netns add client
ip netns add server
for n in 0 1; do
	ip link add "c$n" netns client type veth peer name "s$n" netns server
	ip -n client addr add "10.70.$n.1/24" dev "c$n"
	ip -n server addr add "10.70.$n.2/24" dev "s$n"
	ip -n client link set "c$n" up
	ip -n server link set "s$n" up
	tc -n server qdisc replace dev "s$n" root tbf rate 20mbit burst 16kb latency 40ms
	tc -n client qdisc replace dev "c$n" root tbf rate 20mbit burst 16kb latency 40ms
done
ip -n client route add default via 10.70.1.2 dev c1
ip netns exec client sysctl -qw net.mptcp.enabled=0

client() { # PROGRAM …
	ip netns exec client transom run --mptcp --path c0 --path c1 -- "$@"
}

# Bytes that an interface of the server has sent, or received.
counted() { # INTERFACE tx|rx
	ip netns exec server cat "/sys/class/net/$1/statistics/$2_bytes"
}

both_carried() { # tx|rx LEAST
	first=$(($(counted s0 "$1") - before_first))
	second=$(($(counted s1 "$1") - before_second))
	if [ "$first" -lt "$2" ] || [ "$second" -lt "$2" ]; then
		fail "$first and $second bytes on the paths"
	fi
	echo "ok: $first and $second bytes on the paths"
}

remember() { # tx|rx
	before_first=$(counted s0 "$1")
	before_second=$(counted s1 "$1")
}

mkdir /tmp/files
head -c 16000000 /dev/urandom >/tmp/files/data
sum=$(sha256sum </tmp/files/data)
# This kernel's MPTCP, in a server that knows nothing of it.
ip netns exec server transom run --stack host --mptcp -- \
	python3 -m http.server --directory /tmp/files 8000 >/tmp/server.log 2>&1 &
server=$!
ip netns exec server transom run --stack host --mptcp -- iperf3 -s >/tmp/iperf3.log 2>&1 &
iperf3=$!
for port in 8000 5201; do
	until ip netns exec server ss -ltnH "sport = :$port" | grep -q .; do sleep 0.2; done
done

for fetch in 'curl -sS -o -' 'wget -q -O -'; do
	remember tx
	# shellcheck disable=SC2086 # several words are meant
	[ "$(client $fetch http://10.70.0.2:8000/data | sha256sum)" = "$sum" ] ||
		fail "$fetch: other bytes arrived"
	echo "ok: $fetch: 16,000,000 bytes as they were sent"
	both_carried tx 3000000
done

remember rx
client iperf3 -c 10.70.0.2 -n 16M
both_carried rx 3000000

code=0
client sh -c 'curl -sS http://10.70.0.2:8000/data | head -c 1000 >/dev/null; exit 7' || code=$?
[ "$code" = 7 ] || fail "exit code $code, not 7"
code=0
client curl -sS http://10.70.0.2:9/ || code=$?
[ "$code" = 7 ] || fail "curl's exit code at a closed port is $code, not 7"
echo "ok: exit codes"

# InSegs, OutSegs and OutRsts of RFC 4022.
ip netns exec client awk '/^Tcp: [0-9]/ {exit $11 + $12 + $15 != 0}' /proc/net/snmp ||
	fail "the client's own TCP has taken part"
echo "ok: the client's own TCP has seen and sent no segment"
ip netns exec server nstat -asz 'MPTcpExtMPCapableSYNRX' 'MPTcpExtMPJoinAckRx'

# Wall time of a start and an end, the library's boot in it.
uptime_ms() { awk '{printf "%d", $1 * 1000}' /proc/uptime; }
for words in 'true' 'transom run --stack host -- true' 'transom run --path c0 -- true'; do
	begin=$(uptime_ms)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		# shellcheck disable=SC2086
		ip netns exec client $words
	done
	echo "$words: $((($(uptime_ms) - begin) / 10)) ms"
done
kill "$server" "$iperf3"
