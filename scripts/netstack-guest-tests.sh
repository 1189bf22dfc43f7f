#!/bin/sh
# In the guest of scripts/netstack-guest.sh: each test program of the list beside it.
uname -srm
failed=
while read -r folder program; do
	echo "== ${program##*/}"
	cd "$folder" && "$program" || failed="$failed ${program##*/}"
done </root/tests
[ -z "$failed" ] || {
	echo "failed:$failed"
	exit 1
}
