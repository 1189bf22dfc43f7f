#!/usr/bin/env bash
# Real traffic through a real bottleneck, recorded, explained and drawn.
#
#   client ── veth ── router ── veth ── server      (three network namespaces)
#                       └ 20 Mbit/s, drop-tail queue of 100 kB: 40 ms when full
#
# A cubic upload runs for 15 s; a reno upload joins it after 5 s, for 6 s.
# Where the kernel has netem, ACKs take 20 ms more on their way back.
# Everything made here goes at the end, also on Ctrl-C; what a kill -9 leaves
# behind goes at the next start.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly NAME=transom-demo
readonly CLIENT=$NAME-client ROUTER=$NAME-router SERVER=$NAME-server
readonly RATE=20mbit QUEUE=100kb
readonly SERVER_ADDRESS=10.99.2.2
readonly TARGET=${CARGO_TARGET_DIR:-target}
readonly TRANSOM=$TARGET/release/transom
readonly OUT=$TARGET/demo

say() { echo "demo: $*"; }

become_root() {
	[ "$(id -u)" = 0 ] && return
	if command -v sudo >/dev/null 2>&1; then
		say "probes and network namespaces need root: sudo $0"
		exec sudo CARGO_TARGET_DIR="$TARGET" "$0"
	fi
	say "no root and no sudo"
}

# Ends what runs in our namespaces, by id, and the namespaces.
take_down() {
	local ns pid
	for ns in $CLIENT $ROUTER $SERVER; do
		ip netns list 2>/dev/null | grep -qw "$ns" || continue
		for pid in $(ip netns pids "$ns" 2>/dev/null); do
			kill "$pid" 2>/dev/null || true
		done
		ip netns delete "$ns" || true
	done
}

# The router is to see segments of the size that a wire has.
no_offloads() { # NAMESPACE INTERFACE
	ip netns exec "$1" ethtool -K "$2" tso off gso off gro off >/dev/null 2>&1 || true
}

link() { # HOST INTERFACE INTERFACE-OF-ROUTER SUBNET
	ip link add "$2" netns "$1" type veth peer name "$3" netns $ROUTER
	ip -n "$1" address add "$4.2/24" dev "$2"
	ip -n $ROUTER address add "$4.1/24" dev "$3"
	ip -n "$1" link set "$2" up
	ip -n $ROUTER link set "$3" up
	ip -n "$1" route add default via "$4.1"
	no_offloads "$1" "$2"
	no_offloads $ROUTER "$3"
}

put_up() {
	local ns
	for ns in $CLIENT $ROUTER $SERVER; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
	done
	link $CLIENT uplink to-client 10.99.1
	link $SERVER eth0 to-server 10.99.2
	ip netns exec $ROUTER sysctl -q -w net.ipv4.ip_forward=1
	ip netns exec $ROUTER tc qdisc add dev to-server root tbf rate $RATE burst 5kb limit $QUEUE
	ip netns exec $ROUTER tc qdisc add dev to-client root netem delay 20ms limit 1000 2>/dev/null ||
		say "this kernel has no netem: the only delay is the queue's"
}

# One server a test.
serve() { # PORT [COMMAND …]
	local port=$1
	shift
	"$@" iperf3 --server --one-off --port "$port" >/dev/null 2>&1 9>&- &
	servers+=("$!")
}

wait_for_servers() { # [COMMAND …]
	for _ in $(seq 100); do
		[ "$("$@" ss -Hltn 'sport = :5201 or sport = :5202' | wc -l)" -ge 2 ] && return
		sleep 0.05
	done
	say "iperf3 does not listen" >&2
	return 1
}

# Without privilege only some algorithms may be asked for.
algorithm() { # NAME
	if $routed || grep -qw "$1" /proc/sys/net/ipv4/tcp_allowed_congestion_control; then
		echo "-C $1"
	fi
}

# The program that is recorded, for `sh -e -c`.
traffic() { # ADDRESS [IPERF3-OPTION …]
	local address=$1
	shift
	cat <<-END
		iperf3 -c $address -p 5201 $(algorithm cubic) -t 15 $* >/dev/null &
		sleep 5
		iperf3 -c $address -p 5202 $(algorithm reno) -t 6 $* >/dev/null
		wait \$!
	END
}

# Polling knows no children of a program, so there it is the ports that choose.
record() { # INSIDE … -- SCRIPT
	local inside=()
	while [ "$1" != -- ]; do
		inside+=("$1")
		shift
	done
	if "$TRANSOM" check >/dev/null; then
		"$TRANSOM" record --force -o "$RECORDING" -- "${inside[@]}" sh -e -c "$2"
		return
	fi
	say "no probes here (transom check says why): samples instead, and of both ends"
	"${inside[@]}" "$TRANSOM" record --force -o "$RECORDING" --port 5201,5202 -d 16s &
	"${inside[@]}" sh -e -c "$2"
	wait $!
}

record_through_router() {
	serve 5201 ip netns exec $SERVER
	serve 5202 ip netns exec $SERVER
	wait_for_servers ip netns exec $SERVER
	record ip netns exec $CLIENT -- "$(traffic $SERVER_ADDRESS)" 9>&-
}

record_loopback() {
	say "no network namespaces here: loopback instead, where nothing is ever lost"
	serve 5201
	serve 5202
	wait_for_servers
	record -- "$(traffic 127.0.0.1 -b 200M)"
}

can_make_namespaces() {
	[ "$(id -u)" = 0 ] && ip netns add $NAME-client 2>/dev/null && ip netns delete $NAME-client
}

finish() {
	local pid
	for pid in "${servers[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	[ "$(id -u)" != 0 ] || take_down
}

become_root
mkdir -p "$OUT"
RECORDING=$OUT/upload.parquet
servers=()

if [ "$(id -u)" = 0 ]; then
	exec 9>"/run/$NAME.lock"
	if ! flock -n 9; then
		say "another demo is running" >&2
		exit 1
	fi
	take_down
fi
trap finish EXIT
trap 'exit 130' INT TERM HUP

routed=false
if can_make_namespaces; then
	routed=true
	say "client - router ($RATE, queue $QUEUE) - server: 15 s of cubic, and reno from 5 s to 11 s"
	put_up
	record_through_router
else
	record_loopback
fi

echo
"$TRANSOM" explain "$RECORDING"
echo
rm -rf "$OUT/figures"
"$TRANSOM" report "$RECORDING" --force -o "$OUT/report.html" --png "$OUT/figures" >/dev/null
[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$OUT"
say "the recording: $OUT/upload.parquet"
say "the report:    $OUT/report.html   (one file: open it in a browser)"
say "the figures:   $OUT/figures/"
