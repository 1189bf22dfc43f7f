#!/bin/sh
# Installs, upgrades and removes the packages under systemd, and tries what the units forbid.
# Runs as root in the machine that scripts/dist-systemd.sh boots, twice: before and after a reboot.
#
#   systemd.sh before|after       beside it: *.deb, newer/*.deb, connections.py, forbidden.py, objects.py
set -eu
cd "$(dirname "$0")"
here=$PWD
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER='' SYSTEMD_COLORS=0
readonly SPOOL=/var/lib/transom/spool AGENT=transom-agent.service JOURNAL=transom-journal.service SHIP=transom-fleet-ship.service
# Software emulation is slow: what is to happen is waited for this long.
readonly PATIENCE=90

say() { echo "== $*"; }

fail() {
	echo "transom: dist-systemd: $*"
	systemctl --no-pager --full status "$AGENT" "$JOURNAL" "$SHIP" || true
	journalctl --no-pager -o cat -u "$AGENT" -u "$JOURNAL" -u "$SHIP" | tail -n 30
	exit 1
}

wait_for() { # WHAT COMMAND…
	what=$1
	shift
	left=$PATIENCE
	until "$@"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || fail "waited in vain: $what"
		sleep 1
	done
}

property() { systemctl show --value -p "$1" "$2"; }
active() { systemctl -q is-active "$1"; }
said() { journalctl -q --no-pager -o cat -u "$AGENT" --after-cursor="$cursor" | grep -q -e "$1"; }
mark() { cursor=$(journalctl -q -n 1 --show-cursor -o cat | sed -n 's/^-- cursor: //p'); }

# Files and users, without what apt, dpkg, systemd and the tools for users keep for themselves.
state() {
	find / -xdev \( -path "$here" -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt \
		-o -path /var/lib/systemd -o -path /tmp -o -path /var/tmp -o -path "/etc/*-" \) -prune -o -print | sort
	ls -d /run/transom* /sys/fs/bpf/transom* 2>/dev/null || true
	cut -d: -f1 /etc/passwd /etc/group
	cat /proc/sys/kernel/bpf_stats_enabled
}

# Rows of connections to a port that ended, of all files.
rows() { # PORT
	for file in "$SPOOL"/connections-*.parquet; do
		[ ! -e "$file" ] || transom explain --json "$file"
	done | python3 connections.py count "$1"
}

enough() { [ "$(rows "$1")" -ge "$2" ]; } # PORT ROWS

install() { apt-get -q -q -y --no-install-recommends install "$@" >/var/tmp/apt 2>&1 || fail "apt: $(cat /var/tmp/apt)"; }

installed() {
	say "apt install: nothing is enabled or started, no file of rows"
	state >/var/tmp/before
	install "$here"/*.deb
	for unit in "$AGENT" "$JOURNAL" "$SHIP" transom-fleet-follow.service transom-fleet-step.service transom-tune-follow.service; do
		[ "$(systemctl is-enabled "$unit" || true)" = disabled ] || fail "$unit is enabled"
	done
	active "$AGENT" && fail "the agent runs"
	active "$SHIP" && fail "the shipper runs"
	[ ! -e /var/lib/transom ] || fail "there is a spool"
}

started() {
	say "systemctl start: its own user, its capabilities, rows of a real connection"
	mark
	systemctl start "$AGENT"
	# It returns when the probes are attached: each of these has its rows, which reloaded() counts.
	python3 connections.py make 7001 10
	wait_for "the agent's first message" said "rows of connections go to"
	pid=$(property MainPID "$AGENT")
	echo "user $(ps -o user= -p "$pid"), $(ps -o rss= -p "$pid") kB resident"
	grep -E '^(CapPrm|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
	[ "$(ps -o user= -p "$pid")" = transom ] || fail "another user"
	# CAP_PERFMON is 38, CAP_BPF 39.
	for set in CapPrm CapEff CapBnd CapAmb; do
		grep -q "^$set:.*000000c000000000$" "/proc/$pid/status" || fail "$set is not CAP_BPF and CAP_PERFMON"
	done
	[ "$(stat -c '%U %a' /var/lib/transom)" = "transom 750" ] || fail "the spool's folder is not the agent's"
	[ "$(cat /proc/sys/kernel/bpf_stats_enabled)" = 1 ] || fail "the kernel does not count the time of probes"
}

reloaded() {
	say "systemctl reload: the file's new values are taken, the process stays"
	mark
	echo 'file_seconds = 2' >>/etc/transom/agent.toml
	systemctl reload "$AGENT"
	wait_for "the configuration is read" said "the configuration was read again"
	wait_for "10 connections, 20 rows" enough 7001 20
	[ "$(rows 7001)" = 20 ] || fail "more rows than connections have ends: $(rows 7001)"
	[ "$(property MainPID "$AGENT")" = "$pid" ] || fail "another process"
	echo "10 connections, $(rows 7001) rows"
}

broken() {
	say "a broken configuration: named with line and remedy, the agent goes on"
	mark
	cp /etc/transom/agent.toml /var/tmp/agent.toml
	echo 'spol = "elsewhere"' >>/etc/transom/agent.toml
	line=$(wc -l </etc/transom/agent.toml)
	systemctl reload "$AGENT"
	wait_for "the mistake is named" said "line $line"
	systemctl --no-pager --full status "$AGENT" >/var/tmp/status
	sed -n '/Active:/p; /transom.agent\[/,$p' /var/tmp/status
	grep -q spol /var/tmp/status || fail "systemctl status does not show it"
	grep -q 'goes on as it was configured' /var/tmp/status || fail "it is not said that the agent goes on"
	[ "$(property MainPID "$AGENT")" = "$pid" ] || fail "another process"
	python3 connections.py make 7002 5
	wait_for "rows under the broken file" enough 7002 10
	cp /var/tmp/agent.toml /etc/transom/agent.toml
	systemctl reload "$AGENT"
}

upgraded() {
	say "an upgrade over the running agent, with a connection every 100 ms"
	mark
	python3 connections.py stream 7003 /var/tmp/stop /var/tmp/made &
	stream=$!
	sleep 3
	install -o Dpkg::Options::=--force-confold "$here"/newer/*.deb
	wait_for "a new process" test "$(property MainPID "$AGENT")" != "$pid"
	wait_for "the new agent's first message" said "rows of connections go to"
	pid=$(property MainPID "$AGENT")
	sleep 5
	touch /var/tmp/stop
	wait "$stream"
	# Files are finished every 2 seconds.
	sleep 6
	# Software emulation takes ten times as long to load the probes, so seconds are compared with seconds here.
	gone=$(journalctl -q --no-pager -o short-unix -u "$AGENT" --after-cursor="$cursor" |
		awk '/Stopping/ { from = $1 } /rows of connections go/ { to = $1 } END { printf "%.1f", to - from }')
	echo "no agent for $gone s"
	for file in "$SPOOL"/connections-*.parquet; do transom explain --json "$file"; done |
		python3 connections.py missing 7003 /var/tmp/made "$gone" >/var/tmp/missing || fail "rows are missing besides: $(cat /var/tmp/missing)"
	cat /var/tmp/missing
	journalctl -q --no-pager -o cat -u "$AGENT" --after-cursor="$cursor" | grep 'agent before this one stopped' >/var/tmp/gap ||
		fail "the gap is not said"
	cat /var/tmp/gap
	lacking=$(sed -n 's/.*, \([0-9]*\) without both rows.*/\1/p' /var/tmp/missing)
	counted=$(sed -n 's/.* about \([0-9]*\) connections.*/\1/p' /var/tmp/gap)
	# Each had two ends here, and the kernel counts on while probes are attached one after the other.
	[ "$counted" -ge "$lacking" ] || fail "fewer are counted than lack rows"
	dpkg-query -W -f '${Package} ${Version}\n' transom transom-agent
	[ "$(property NRestarts "$AGENT")" = 0 ] || fail "systemd had to restart it"
}

killed() {
	say "kill -9: systemd starts the next one, which counts what it did not see"
	mark
	kill -KILL "$pid"
	wait_for "a restart" test_restarted
	wait_for "the gap is said" said "ended without a stop"
	journalctl -q --no-pager -o cat -u "$AGENT" --after-cursor="$cursor" | grep 'ended without a stop'
	pid=$(property MainPID "$AGENT")
	python3 connections.py make 7004 5
	wait_for "rows of the next agent" enough 7004 10
}

# What the service is given, as its own comments say it.
configure_shipping() {
	grep -q objects.test /etc/hosts || echo '127.0.0.1 objects.test' >>/etc/hosts
	printf '%s\n' TRANSOM_TO=s3://tables/fleet AWS_REGION=nowhere-1 AWS_ENDPOINT_URL=http://objects.test:9000 \
		AWS_ALLOW_HTTP=true >/etc/transom/fleet.env
	(umask 077 && printf '%s\n' '[default]' 'aws_access_key_id = TESTED' 'aws_secret_access_key = secret' \
		>/etc/transom/fleet.credentials)
	mkdir -p "/etc/systemd/system/$SHIP.d"
	(echo '[Service]' && sed -n 's/^#\(LoadCredential=\|Environment=\)/\1/p' "/usr/lib/systemd/system/$SHIP") \
		>"/etc/systemd/system/$SHIP.d/keys.conf"
	grep -q '^LoadCredential=' "/etc/systemd/system/$SHIP.d/keys.conf" || fail "the unit does not show where keys go"
	systemctl daemon-reload
}

# Every file of the spool that is finished has its object.
all_landed() {
	for file in "$SPOOL"/*.parquet; do
		number=${file##*-}
		table=$(basename "$file" | sed 's/-.*//')
		find "/var/tmp/objects/tables/fleet/$table" -name "*-$number" 2>/dev/null | grep -q . || return 1
	done
}

shipped() {
	say "systemctl start transom-fleet-ship: its own user, no capability, each file lands"
	configure_shipping
	mkdir -p /var/tmp/objects
	python3 objects.py 9000 /var/tmp/objects 2>/dev/null &
	objects=$!
	# What it has becomes files, and no more come.
	systemctl stop "$AGENT"
	systemctl start "$SHIP"
	shipper=$(property MainPID "$SHIP")
	wait_for "an object for each file" all_landed
	echo "user $(ps -o user= -p "$shipper"), $(ps -o rss= -p "$shipper") kB resident"
	grep -E '^(Groups|CapPrm|CapBnd|NoNewPrivs|Seccomp):' "/proc/$shipper/status"
	[ "$(ps -o user:20= -p "$shipper")" = transom-fleet ] || fail "another user"
	for set in CapPrm CapEff CapBnd CapAmb; do
		grep -q "^$set:.*0000000000000000$" "/proc/$shipper/status" || fail "it has a capability"
	done
	echo "$(find "$SPOOL" -name '*.parquet' | wc -l) files, $(find /var/tmp/objects -name '*.parquet' | wc -l) objects"
	[ "$(property NRestarts "$SHIP")" = 0 ] || fail "systemd had to restart it"
	systemctl stop "$SHIP"
}

# Of the shipper, for whoever reads them for Prometheus.
tells() { setpriv --reuid=nobody --clear-groups grep -q -e "$1" /run/transom-fleet-ship/ship.prom; }

refused() {
	say "keys that the store refuses: the shipper ends, and its metrics go on telling it"
	sed -i 's/TESTED/REVOKED/' /etc/transom/fleet.credentials
	systemctl start "$SHIP"
	wait_for "the shipper ends" test_ended
	active "$SHIP" && fail "the shipper still runs"
	tells 'refusal="denied"' || fail "nobody is told why it ended"
	systemctl stop "$SHIP"
	tells 'refusal="denied"' || fail "metrics went with the service"
	grep -h '^transom_ship_troubles' /run/transom-fleet-ship/ship.prom
	systemctl reset-failed "$SHIP" 2>/dev/null || true
	sed -i 's/REVOKED/TESTED/' /etc/transom/fleet.credentials
	kill "$objects"
}

test_ended() { [ "$(property Result "$SHIP")" = exit-code ]; }
test_restarted() { [ "$(property NRestarts "$AGENT")" = 1 ] && active "$AGENT"; }

# The unit with another program: what it may not do.
try_forbidden() { # UNIT EXPECTED…
	unit=$1
	shift
	mkdir -p "/run/systemd/system/$unit.d"
	printf '[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart=/usr/bin/python3 %s %s\nExecStop=\n' \
		"$here/forbidden.py" "/var/lib/transom /run/transom" >"/run/systemd/system/$unit.d/forbidden.conf"
	systemctl daemon-reload
	mark
	systemctl stop "$unit"
	systemctl start "$unit" || true
	journalctl -q --no-pager -o cat -u "$unit" --after-cursor="$cursor" | grep -E '^(allowed|refused)' >/var/tmp/tried || true
	rm -r "/run/systemd/system/$unit.d"
	systemctl daemon-reload
	systemctl stop "$unit"
	cat /var/tmp/tried
	grep -q '^refused' /var/tmp/tried || fail "nothing was tried in $unit"
	if grep '^allowed' /var/tmp/tried; then fail "$unit allows this"; fi
}

sandboxed() {
	say "what the units forbid: another program in each"
	try_forbidden "$AGENT"
	try_forbidden "$JOURNAL"
	try_forbidden "$SHIP"
	say "control: the same program without a sandbox may do all of it"
	python3 forbidden.py >/var/tmp/tried
	if grep -v '^allowed' /var/tmp/tried; then fail "refused without a unit: the test above shows nothing"; fi
}

scored() {
	say "systemd-analyze security"
	for unit in "$AGENT" "$JOURNAL" "$SHIP" transom-fleet-follow.service transom-fleet-step.service; do
		systemd-analyze security --no-pager "$unit" | tail -n 1
		systemd-analyze security --no-pager --threshold=25 "$unit" >/dev/null || fail "$unit has more than 2.5"
	done
}

# After the reboot.
at_boot() {
	say "after a reboot: the agent and the journal were started at boot"
	active "$AGENT" || fail "the agent does not run"
	active "$JOURNAL" || fail "the journal is not installed"
	journalctl -q --no-pager -b -o short-monotonic -u "$JOURNAL" | tail -n 2
	python3 connections.py make 7005 5 | tee /var/tmp/made
	process=$(sed -n 's/^process \([0-9]*\):.*/\1/p' /var/tmp/made)
	cat /sys/fs/bpf/transom/tcp >/var/tmp/tcp
	grep -q "PID=$process " /var/tmp/tcp || fail "the journal has no event of the connections"
	echo "$(wc -l </var/tmp/tcp) lines, such as: $(grep "PID=$process " /var/tmp/tcp | head -n 1)"
	wait_for "rows of the agent" enough 7005 10
	[ "$(rows 7001)" = 20 ] || fail "the rows from before the reboot are gone"
	systemctl stop "$JOURNAL"
	[ ! -e /sys/fs/bpf/transom ] || fail "the journal left something in bpffs"
	systemctl start "$JOURNAL"
	[ -e /sys/fs/bpf/transom/tcp ] || fail "the journal did not come again"
}

removed() {
	say "apt remove: stopped, rows and configuration stay"
	apt-get -q -q -y remove transom transom-agent transom-fleet transom-drill >/dev/null
	active "$AGENT" && fail "the agent still runs"
	active "$SHIP" && fail "the shipper still runs"
	[ ! -e /sys/fs/bpf/transom ] || fail "the journal is still there"
	[ -n "$(find "$SPOOL" -name 'connections-*')" ] || fail "the rows are gone"
	[ -e /etc/transom/agent.toml ] || fail "the configuration is gone"
	[ -s /var/lib/transom-fleet/shipped ] || fail "what landed is forgotten"
	say "apt purge: nothing stays"
	rm -r /etc/default/transom-journal /etc/transom/fleet.credentials "/etc/systemd/system/$SHIP.d"
	apt-get -q -q -y purge transom transom-agent transom-fleet transom-drill >/dev/null
	state >/var/tmp/after
	diff /var/tmp/before /var/tmp/after || fail "something stayed"
	[ -z "$(systemctl list-units --all --no-legend 'transom*')" ] || fail "systemd still knows a unit"
	[ -z "$(systemctl --failed --no-legend)" ] || fail "units failed: $(systemctl --failed --no-legend)"
}

case $1 in
before)
	installed
	started
	reloaded
	broken
	upgraded
	killed
	shipped
	refused
	sandboxed
	scored
	# What at_boot looks for: the options of the administrator.
	echo 'OPTIONS=--port 7005 --size 2000' >/etc/default/transom-journal
	systemctl -q enable "$AGENT" "$JOURNAL"
	;;
after)
	at_boot
	removed
	echo "transom: dist-systemd: passed"
	;;
esac
