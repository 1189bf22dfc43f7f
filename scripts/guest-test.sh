#!/usr/bin/env bash
# Transom on kernels that are not this machine's: Debian's 6.1 and 6.12 in guests (scripts/guest.sh).
#
#   scripts/guest-test.sh [KERNEL]…     by default 6.1 and 6.12
#
# On each kernel: what it offers, a transfer recorded in every tier, `tune` with
# `steady`, a path by netem, and tests of the kernel side. Some 30 minutes a
# kernel without hardware help. Their output is kept in target/guest/test-KERNEL.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
target=$(realpath -m "$target")
failed=0

built=$(cargo test --locked --no-run --message-format=json -p transom -p transom-agent)
test_program() { # NAME
	python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == sys.argv[1] \
            and "test" in message["target"]["kind"]:
        print(message["executable"])' "$1" <<<"$built"
}

tools=()
for tool in ip tc ss nstat iperf iperf3 ping tcpdump bpftool timeout setpriv kill mount umount sleep \
	dd sysctl bash /usr/bin/python3; do
	tools+=(--file "$tool")
done
tools+=(--file "$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')")
# Tests call it by the name it was built under.
tools+=(--file "$target/debug/transom-agent")
tools+=(--file "$target/debug/transom" --file "$target/debug/transom:/usr/bin/transom")
tools+=(--file "$target/debug/transom-lab" --file "$target/debug/transom-lab:/usr/bin/transom-lab")

guest() { # NAME LIMIT OPTION… -- COMMAND…
	local name=$1 limit=$2 status=0
	shift 2
	scripts/guest.sh --kernel "$package" --limit "$limit" --memory 4000 "${tools[@]}" "$@" \
		>"$kept/$name.txt" 2>&1 || status=$?
	if [ "$status" = 0 ]; then
		echo "ok      $series  $name"
	else
		echo "FAILED  $series  $name: status $status, see $kept/$name.txt"
		failed=1
	fi
}

[ $# -gt 0 ] || set -- 6.1 6.12
for series in "$@"; do
	case $series in
	6.1) package=linux-image-amd64 ;;
	*) package=linux-image-$series-amd64 ;;
	esac
	kept=target/guest/test-$series
	mkdir -p "$kept"
	guest tiers 180 --file scripts/guest/tiers.sh:/guest/tiers.sh \
		--file scripts/guest/link.sh:/guest/link.sh --results "$kept" -- sh /guest/tiers.sh
	guest tune 120 --file scripts/guest/tune.sh:/guest/tune.sh --file scripts/guest/link.sh:/guest/link.sh \
		-- sh /guest/tune.sh
	guest netem 240 --file scripts/guest/wire.toml:/guest/wire.toml --results "$kept" \
		-- sh -c 'cd $RESULTS && transom lab run /guest/wire.toml --quick --backend netem'
	for name in lifecycle owners filters progress errors faults journal steady tune tune_shown tune_match agent flight; do
		guest "$name" 600 --file "$(test_program "$name"):/guest/$name" \
			-- "/guest/$name" --test-threads=1
	done
	# The tier below, where the kernel has it (6.2).
	[ "$series" = 6.1 ] || for name in lifecycle owners progress errors; do
		guest "$name-kprobe" 600 --file "$(test_program "$name"):/guest/$name" \
			-- env TRANSOM_WITHOUT=fentry "/guest/$name" --test-threads=1 --skip ten_thousand
	done
done
exit "$failed"
