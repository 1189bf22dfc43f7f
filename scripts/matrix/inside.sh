#!/bin/sh
# Runs test programs in a guest of `make matrix`; what they say and how they end goes to standard output.
#
#   inside.sh ROWS FOLDER [WORD]...    a file with a line for each: name, seconds, folder, program, and its
#                                      tests if they are to run alone; where `transom` is; more words for
#                                      each program
#
# A line that begins with @@ is ours; those of libtest are JSON.
"$2/transom" check --json >/tmp/check 2>/dev/null
printf '\n@@check %s\n' "$(tr -d '\n' </tmp/check)"
rows=$1
shift 2
while read -r name seconds folder program alone; do
	cd "$folder" || exit
	: >/tmp/skips
	begun=$(cut -d' ' -f1 /proc/uptime)
	threads=2
	[ -z "$alone" ] || threads=1
	printf '\n@@begin %s\n' "$name"
	# shellcheck disable=SC2086 # names of tests have no spaces
	TRANSOM_SKIPS=/tmp/skips CARGO_MANIFEST_DIR=$folder RUSTC_BOOTSTRAP=1 \
		timeout -k 10 "$seconds" "$program" --test-threads=$threads --format json -Z unstable-options --report-time \
		"$@" ${alone:+--exact $alone} 2>&1
	status=$?
	printf '\n'
	while IFS= read -r line; do printf '@@skip %s\n' "$line"; done </tmp/skips
	echo "@@end $name $status $(cut -d' ' -f1 /proc/uptime) $begun"
	rm -rf /tmp/.tmp* /tmp/transom*
done <"$rows"
