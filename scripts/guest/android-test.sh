#!/system/bin/sh
# shellcheck shell=ksh
# What Transom does on a phone's kernel and root; in a guest of scripts/gki-test.sh.
set -e
cd /data/local/tmp
fail() {
	print "FAILED  $*"
	exit 1
}
print "== $(uname -r), pages of $(getconf PAGESIZE) bytes, $(cat /proc/self/attr/current)"
[ "$(cat /sys/fs/selinux/enforce)" = 1 ] || fail "SELinux does not enforce"
for folder in / /system /system/bin; do
	! touch "$folder/written" 2>/dev/null || fail "$folder can be written"
done

print "== the same call in two domains"
status=0
runcon u:r:shell:s0 ./transom check >"$RESULTS/check-shell.txt" 2>&1 || status=$?
[ "$status" = 1 ] || fail "transom check ended with $status in the domain shell"
grep -q 'allow shell self:bpf { map_create map_read map_write prog_load prog_run };' "$RESULTS/check-shell.txt" ||
	fail "transom check names no rule"
dmesg | grep 'avc: *denied *{ map_create }.*scontext=u:r:shell:s0.*tclass=bpf' ||
	fail "the kernel's log has no denial"
! dmesg | grep -q 'avc:.*scontext=u:r:su:s0' || fail "su was denied something"
runcon u:r:shell:s0 ./transom record -d 1 -o polled.parquet >polled.txt 2>&1 || true
grep 'no events: SELinux enforcing, refuses BPF to u:r:shell:s0' polled.txt || fail "record: $(cat polled.txt)"
runcon u:r:bpfloader:s0 ./transom check >check-bpfloader.txt || fail "transom check in the domain bpfloader"
grep 'not by kprobe: .*allow bpfloader self:perf_event' check-bpfloader.txt ||
	fail "transom check: $(cat check-bpfloader.txt)"
./transom check | tee "$RESULTS/check.txt" || fail "transom check in the domain su"

# Loopback with a delay and losses, so that there is something to see.
tc qdisc add dev lo root netem delay 5ms loss 0.5% limit 1000
for without in fentry fentry,kprobe; do
	print
	print "== TRANSOM_WITHOUT=$without"
	export TRANSOM_WITHOUT=$without
	tier=kprobe
	[ "$without" = fentry ] || tier=tracepoint
	./transom check | grep -E "^ok  (ack|rto) *$tier" || fail "no tier $tier"
	file=$RESULTS/$tier.parquet
	./transom record -d 10 -o "$file" 2>record.txt &
	until grep -qs ready record.txt; do
		grep -qs 'no events' record.txt && fail "it polls: $(cat record.txt)"
		sleep 0.2
	done
	./load bulk 2 1
	wait
	cat record.txt
	ls -l "$file"
done
unset TRANSOM_WITHOUT

print
print "== transom-agent"
mkdir -p agent
./transom-agent --spool agent >agent.txt 2>&1 &
agent=$!
sleep 3
for mode in bulk small echo bulk small echo; do
	./load $mode 1 2
done
grep -E '^Vm(RSS|HWM)|^RssAnon' "/proc/$agent/status"
kill "$agent"
wait "$agent" || true
cat agent.txt
cp -r agent "$RESULTS/agent"
! dmesg | grep 'avc:.*scontext=u:r:su:s0' || fail "su was denied something"
print ok
