# shellcheck shell=bash disable=SC2034 # the scenes use what is set here
# Where the commands of the pages run: `client`, `router` and `server` are namespaces, and from
# the router to the server 20 Mbit/s pass with a queue of 60 packets. Names, locks and pins are
# in mounts of this shell alone (scenes.rs starts it with `unshare -m`).

mkdir -p /run/transom /run/netns
mount -t tmpfs tmpfs /run/transom
mount -t tmpfs tmpfs /run/netns
if mountpoint -q /sys/fs/bpf; then mount -t bpf bpf /sys/fs/bpf; fi

# Waits for a command to succeed, 20 s at most.
await() {
	local left=400
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] || {
			echo "waited 20 s for: $*"
			return 1
		}
		sleep 0.05
	done
}

sudo() { "$@"; }

in_server() { ip netns exec server "$@"; }
in_client() { ip netns exec client "$@"; }

not() { ! "$@"; }
# The command of the page that runs in the foreground meanwhile (Run::Interrupted), its probes, its end.
shown() { pgrep -P "$(pgrep -P $$ -x timeout)"; }
is_attached() { grep -qs '^link_type' /proc/"$(shown)"/fdinfo/*; }
interrupt() { kill -INT "$(shown)"; }

listens() { in_server ss -Hltn "sport = :$1" | grep -q .; }
connected() { in_client ss -Htn state established "dport = :$1" | grep -q .; }

# Puts up the namespaces, with an iperf3 server for each port.
wire() {
	local port
	for host in client router server; do
		ip netns add $host
		ip -n $host link set lo up
	done
	ip link add to_router netns client type veth peer name to_client netns router
	ip link add to_server netns router type veth peer name to_router netns server
	ip -n client addr add 10.99.1.2/24 dev to_router
	ip -n router addr add 10.99.1.1/24 dev to_client
	ip -n router addr add 10.99.2.1/24 dev to_server
	ip -n server addr add 10.99.2.2/24 dev to_router
	ip netns exec router sysctl -qw net.ipv4.ip_forward=1
	ip -n client link set to_router up
	ip -n router link set to_client up
	ip -n router link set to_server up
	ip -n server link set to_router up
	ip -n client route add default via 10.99.1.1
	ip -n server route add default via 10.99.2.1
	ip netns exec router tc qdisc add dev to_server root tbf rate 20mbit burst 10k limit 90k
	for port in "$@"; do serve "$port"; done
}

# Port to process of the server.
declare -A servers

serve() {
	(exec ip netns exec server iperf3 -s -p "$1" >/dev/null 2>&1) &
	servers[$1]=$!
	await listens "$1"
}

# Two paths from the client to a server with Multipath TCP: 20 Mbit/s by p0, 10 by p1.
two_paths() {
	local path rate
	for path in 0 1; do
		ip link add p$path netns client type veth peer name q$path netns server
		ip -n client addr add 10.81.$path.1/24 dev p$path
		ip -n server addr add 10.81.$path.2/24 dev q$path
		ip -n client link set p$path up
		ip -n server link set q$path up
		ip -n client route add default via 10.81.$path.2 dev p$path metric 10$path
		rate=$((20 / (path + 1)))
		ip netns exec client tc qdisc add dev p$path root tbf rate ${rate}mbit burst 10k limit 90k
	done
	(exec ip netns exec server python3 "$ROOT/bench/netstack_peer.py" server 7000 >/dev/null 2>&1) &
	await listens 7000
}

# Port to process of the upload.
declare -A uploads

# Uploads in the background. Arguments: port, seconds, more of iperf3's.
upload() {
	local port=$1 seconds=$2
	shift 2
	(exec ip netns exec client iperf3 -c 10.99.2.2 -p "$port" -t "$seconds" "$@" >/dev/null 2>&1) &
	uploads[$port]=$!
	await connected "$port"
}

# Until the upload to a port has ended.
quiet() { await not connected "$1"; }

# Ends the upload to a port before its time.
hush() {
	kill "${uploads[$1]}"
	quiet "$1"
}

# The n-th TOML block of a page. Arguments: page, n.
toml() {
	awk -v n="$2" '/^```toml/ { on = ++seen == n; next } /^```/ { on = 0 } on' "$ROOT/docs/$1"
}
