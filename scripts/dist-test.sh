#!/usr/bin/env bash
# Installs the packages of `make dist` on a clean system, runs what they bring, and removes them.
#
#   scripts/dist-test.sh [SUITE] [PACKAGE.deb…]      bookworm, and the packages in target/packages
#
# SUITE is a release that scripts/dist-root.sh makes a root of, without systemd. The root is run in
# namespaces of its own; nothing is installed on this machine. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: dist-test: $*" >&2
	exit 1
}

suite=${1:-bookworm}
shift || true
dist=${TRANSOM_DIST:-${CARGO_TARGET_DIR:-$PWD/target}/packages}
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=("$dist"/*_"$(dpkg --print-architecture)".deb)
# Their C library is older than the one that transom-drill needs.
[[ $suite != bullseye && $suite != jammy ]] || mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -v /transom-drill_)
drill=$(printf '%s\n' "${packages[@]}" | grep /transom-drill_ || true)
[ -e "${packages[0]}" ] || fail "no packages in $dist: make dist"
[ "$(id -u)" = 0 ] || fail "needs root"
roots=${CARGO_TARGET_DIR:-$PWD/target}/roots

if [ -z "${TRANSOM_DIST_TEST_INSIDE:-}" ]; then
	tar=$(scripts/dist-root.sh "$suite")
	rm -rf "${roots:?}/$suite"
	mkdir -p "$roots/$suite"
	tar -C "$roots/$suite" -x <"$tar"
	TRANSOM_DIST_TEST_INSIDE=1 exec unshare -m --propagation private "$0" "$suite" "${packages[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$roots/$suite
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount --bind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/packages"
cp "${packages[@]}" "$root/packages/"

exec_in_root() { exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

in_root() { (exec_in_root "$@"); }

# CAP_BPF and CAP_PERFMON; setpriv of older releases does not know their names.
readonly CAPS=+cap_39,+cap_38

state() { # all files and users, without what apt and dpkg note for themselves
	# `shadow-` and its like are copies that the tools for users keep.
	(cd "$root" && find . -xdev \( -path ./packages -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg \
		-o -path ./var/lib/apt -o -path ./tmp -o -path "./etc/*shadow-" \) -prune -o -print | LC_ALL=C sort)
	cut -d: -f1 "$root/etc/passwd"
}

say() { echo "== $*"; }

say "apt install, on $suite"
# What the packages depend on is there before, so that it does not count as left behind.
in_root apt-get -q -q update
in_root apt-get -q -q -y --no-install-recommends install adduser ca-certificates python3-minimal >/dev/null 2>&1
# A module for names, as most machines have: a static program that loaded it would end on some of these systems.
in_root apt-get -q -q -y --no-install-recommends install libnss-myhostname >/dev/null 2>&1
echo "hosts: myhostname files dns" >"$root/etc/nsswitch.conf"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
state >"$root/tmp/before"
in_root sh -c 'apt-get -y --no-install-recommends install /packages/*.deb' | grep -E '^(Setting up|The following NEW|  transom)' || fail "apt"
in_root test -d /var/lib/transom && fail "the installation made a spool"

say "transom check"
in_root transom check

# As the unit does: its user, its capabilities, no new privileges.
agent() {
	# Without a shell between, so that a signal reaches the agent.
	(exec_in_root setpriv --reuid=transom --regid=transom --clear-groups --no-new-privs \
		--inh-caps="-all,$CAPS" --ambient-caps="-all,$CAPS" --bounding-set="-all,$CAPS" \
		transom-agent) &
	agent=$!
	sleep 3
}

traffic() {
	in_root python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
for _ in range(5):
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    client.sendall(b"x" * 20000)
    left = 20000
    while left: left -= len(accepted.recv(left))
    client.close(); accepted.close()'
	sleep 1.5
}

# The process that `in_root` became is the agent itself.
stop_agent() {
	kill -INT "$agent"
	wait "$agent" || fail "the agent ended with $?"
}

rows() {
	in_root sh -c 'for file in /var/lib/transom/spool/connections-*.parquet; do transom explain --json "$file"; done' |
		grep -o '"program": *"python3"' | wc -l
}

say "the agent as its unit runs it: CAP_BPF and CAP_PERFMON, user transom"
in_root install -d -o transom -g transom -m 750 /var/lib/transom
agent
traffic
grep -E '^(VmRSS|CapEff|NoNewPrivs)' "/proc/$agent/status"
resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$agent/status")
[ "$resident" -le $((20 * 1024)) ] || fail "the agent has $resident kB resident, more than 20 MiB"
stop_agent
first=$(rows)
say "rows of the test's program: $first"
[ "$first" -ge 10 ] || fail "10 rows were expected"

say "a reinstallation over an agent that runs, then kill -9: the next one continues"
agent
traffic
in_root sh -c 'apt-get -q -q -y --reinstall install /packages/*.deb' >/dev/null
kill -0 "$agent" || fail "the installation ended the agent"
kill -KILL "$agent"
wait "$agent" || true
agent
stop_agent
second=$(rows)
say "rows of both agents: $second"
[ "$second" -ge 20 ] || fail "20 rows were expected"

# As its unit does: its user, the agent's group, no capability.
as_shipper() {
	in_root setpriv --reuid=transom-fleet --regid=transom-fleet --groups=transom --no-new-privs \
		--inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"
}

ship() {
	as_shipper env AWS_ENDPOINT_URL="http://$1:$port" AWS_ALLOW_HTTP=true AWS_REGION=nowhere-1 \
		AWS_ACCESS_KEY_ID=TESTED AWS_SECRET_ACCESS_KEY=secret \
		transom-fleet ship --once --host clean --state /var/lib/transom-fleet --to s3://tables/fleet
}

say "the shipper as its unit runs it: user transom-fleet, group transom, no capability"
in_root transom-fleet --version
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
mkdir "$work/objects"
python3 scripts/guest/objects.py "$port" "$work/objects" 2>/dev/null &
objects=$!
python3 scripts/guest/names.py 127.0.0.77 &
names=$!
echo 'nameserver 127.0.0.77' >"$root/etc/resolv.conf"
until (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
in_root install -d -o transom-fleet -g transom-fleet -m 700 /var/lib/transom-fleet
ship objects.test
ship localhost
kill "$objects" "$names"
there=$(find "$root/var/lib/transom/spool" -name '*.parquet' | wc -l)
# The machine's own row is of no file.
landed=$(find "$work/objects/tables/fleet" -name 'clean-*.parquet' ! -path '*/hosts/*' | wc -l)
[ "$(find "$work/objects/tables/fleet/hosts" -name 'clean-*.parquet' | wc -l)" = 1 ] || fail "no row of the machine"
[ "$landed" = "$there" ] || fail "$landed objects of $there files"
in_root test -s /var/lib/transom/spool/key
as_shipper cat /var/lib/transom/spool/key >/dev/null 2>&1 && fail "it can read the key of address tags"
as_shipper touch /var/lib/transom/spool/made 2>/dev/null && fail "it can write to the spool"
file=$(basename "$(find "$root/var/lib/transom/spool" -name 'connections-*.parquet' | head -n 1)")
in_root setpriv --reuid=nobody --clear-groups cat "/var/lib/transom/spool/$file" >/dev/null 2>&1 && fail "everybody can read rows"

# A router and a host that answers as its unit does, by a name that the C library finds.
if [ -n "$drill" ]; then
	say "a host answers what is asked about a connection: no user of its own, the agent's group, no capability"
	echo 'nameserver 127.0.0.77' >"$root/etc/resolv.conf"
	python3 scripts/guest/names.py 127.0.0.77 &
	names=$!
	(exec_in_root transom-drill router --listen tcp/127.0.0.1:7447) &
	router=$!
	(exec_in_root setpriv --reuid=nobody --regid=nogroup --groups=transom --no-new-privs \
		--inh-caps=-all --ambient-caps=-all --bounding-set=-all \
		transom-drill answer --plain --host clean --router tcp/objects.test:7447) &
	answer=$!
	asked=$(in_root sh -c 'transom explain --json "$(ls /var/lib/transom/spool/connections-*.parquet | head -n 1)"' |
		grep -o '"cookie": *[0-9]*' | head -n 1 | grep -o '[0-9]*$')
	left=20
	until in_root transom-drill ask clean "#$asked" --router tcp/127.0.0.1:7447 --lasted 86400 --json >"$work/answer"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || fail "nobody answers"
		sleep 1
	done
	kill "$router" "$answer" "$names"
	grep -q '"state"' "$work/answer" || fail "the answer says nothing: $(cat "$work/answer")"
	cat "$work/answer"
fi

say "apt remove keeps the rows and the configuration"
in_root apt-get -q -q -y remove transom transom-agent transom-fleet ${drill:+transom-drill} >/dev/null
[ "$(find "$root/var/lib/transom/spool" -name 'connections-*' | wc -l)" -gt 0 ] || fail "the rows are gone"
in_root test -e /etc/transom/agent.toml || fail "the configuration is gone"
in_root test -e /var/lib/transom-fleet/shipped || fail "what landed is forgotten"
say "apt purge leaves nothing"
in_root apt-get -q -q -y purge transom transom-agent transom-fleet ${drill:+transom-drill} >/dev/null
state >"$root/tmp/after"
diff "$root/tmp/before" "$root/tmp/after" || fail "something was left behind"
echo "transom: dist-test: passed on $suite"
