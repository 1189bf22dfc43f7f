#!/bin/sh
# In the guest of scripts/netstack-guest.sh: each test program of the list beside it.
uname -srm
# What packages would have done when they were installed, and what a host has.
ln -sf gcc /usr/bin/cc
: >>/etc/resolv.conf
# shellcheck disable=SC3045 # dash has it
ulimit -n 65536
failed=
while read -r folder program; do
	echo "== ${program##*/}"
	cd "$folder" && "$program" --show-output </dev/null || failed="$failed ${program##*/}"
done </root/tests
[ -z "$failed" ] || {
	echo "failed:$failed"
	exit 1
}
