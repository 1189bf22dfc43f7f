# shellcheck shell=dash
# What the scripts of a small machine share (scripts/dist-guest.sh): what they say, wait for and measure.

# What programs in the background say.
SAID=${SAID:-/tmp/said}

say() { echo "== $*"; }

fail() {
	echo "transom: dist-guest: $*"
	cat "$SAID" 2>/dev/null || true
	exit 1
}

wait_for_words() { # WORDS: in what the program in the background says
	left=1200
	until grep -qs -e "$1" "$SAID"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || fail "waited in vain for '$1'"
		sleep 0.1
	done
}

memory() { # PROCESS: now, and the most that it had
	awk '/^VmHWM/ { most = $2 } /^VmRSS/ { now = $2 } END { print now " kB resident, at most " most " kB" }' "/proc/$1/status"
}

# Ctrl-C, and what it ends with.
end() { # PROCESS
	kill -INT "$1"
	wait "$1" || fail "it ended with $?"
}

# What the maps and the programs that a process holds in the kernel take, each once.
in_kernel() { # PROCESS
	cat /proc/"$1"/fdinfo/* 2>/dev/null | awk '
		/^(map|prog)_type/ { what = substr($1, 1, 4) } /^memlock/ { bytes = $2 }
		/^map_id/ { maps[$2] = bytes } /^prog_id/ { programs[$2] = bytes }
		END {
			for (id in maps) of_maps += maps[id]
			for (id in programs) of_programs += programs[id]
			print int(of_maps / 1024) " kB of maps, " int(of_programs / 1024) " kB of programs"
		}'
}

# Our programs that the kernel has.
programs_in_kernel() {
	grep -c ' bpf_prog_.*\[bpf\]' /proc/kallsyms || true
}
