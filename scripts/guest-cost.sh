#!/usr/bin/env bash
# What recording and the agent cost on an arm64 kernel with one processor, counted in instructions
# (docs/gki.md): time means nothing in an emulated machine.
#
#   scripts/guest-cost.sh [KERNEL [ROUNDS]]
#   TRANSOM_PROGRAMS=FOLDER scripts/guest-cost.sh …    programs of scripts/dist-build.sh that are there already
#
# KERNEL as guest.sh takes it, by default Debian 13's; gki-4k and gki-16k with a phone's root. ROUNDS: how
# often each figure is measured, by default 3. Prints what the guest said, then a table: the least and the
# most of each figure, and of what a round had with recorder or agent divided by what it had alone.
set -euo pipefail
cd "$(dirname "$0")/.."

kernel=${1:-linux-image-6.12-arm64}
rounds=${2:-3}
root=busybox
case $kernel in gki-*) root=android ;; esac
load=$(realpath -m "${CARGO_TARGET_DIR:-target}")/aarch64-unknown-linux-gnu/release/examples/load
folder=/root
[ "$root" = busybox ] || folder=/data/local/tmp

programs=${TRANSOM_PROGRAMS:-$(scripts/dist-build.sh arm64)}
scripts/cross.sh aarch64 build --release --locked -p transom-monitor --example load
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# What was measured before a limit or a failure is shown as well.
status=0
scripts/guest.sh --arch aarch64 --kernel "$kernel" --root "$root" --cpus 1 --clock instructions \
	--limit "${TRANSOM_GUEST_LIMIT:-3600}" --file "$programs/transom:$folder/transom" \
	--file "$programs/transom-agent:$folder/transom-agent" --file "$load:$folder/load" \
	--file scripts/guest/cost.sh:"$folder/cost.sh" -- sh cost.sh "$rounds" | tee "$said" || status=$?
tr -d '\r' <"$said" | awk '
	$1 == "@" {
		name = $2 " " $3
		if (!(name in times)) order[++names] = name
		rate[name, ++times[name]] = $4
	}
	# The least and the most of the rounds, divided by those of the load alone where that is wanted.
	function range(name, load, format,   i, value, least, most) {
		for (i = 1; i <= times[name]; i++) {
			value = rate[name, i] / (load == "" ? 1 : rate[load " alone", i])
			if (i == 1 || value < least) least = value
			if (i == 1 || value > most) most = value
		}
		return sprintf(format " to " format, least, most)
	}
	END {
		print "\n| load | with | per 10⁹ instructions | ÷ alone |\n|---|---|---|---|"
		for (n = 1; n <= names; n++) {
			split(order[n], word, " ")
			print "| " word[1] " | " word[2] " | " range(order[n], "", "%.0f") " | " range(order[n], word[1], "%.3f") " |"
		}
	}'
exit "$status"
