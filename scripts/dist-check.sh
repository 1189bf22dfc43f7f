#!/usr/bin/env bash
# Builds and packs a commit twice, in folders of different names and depths: the same bytes?
#
#   scripts/dist-check.sh [ARCH]…      this machine's architecture
#
# What lies in target/packages counts as the first time if it was made of this commit by this
# compiler; otherwise it is built twice. TRANSOM_MANUAL names pages and completions that are made
# already: then these are the same in both, and only programs and packing are compared.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- "$(dpkg --print-architecture)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
there=${TRANSOM_DIST:-${CARGO_TARGET_DIR:-$PWD/target}/packages}
unset CARGO_TARGET_DIR TRANSOM_DIST TRANSOM_PROGRAMS
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

build_in() { # FOLDER ARCH: prints where the packages are
	mkdir -p "$work/$1"
	git archive HEAD | tar -x -C "$work/$1"
	"$work/$1/scripts/dist.sh" "$2" >"$work/$1/log" 2>"$work/$1/said" || {
		tail -n 30 "$work/$1/said" >&2
		exit 1
	}
	echo "$work/$1/target/packages"
}

sums() { # FOLDER ARCH
	(cd "$1" && files=(*_"$2".deb *-"$2".tar.xz) && if [ "$2" = arm64 ]; then files+=(*_all.deb); fi && sha256sum -- "${files[@]}")
}

for arch; do
	if [ "$(cat "$there/.made-of-$arch" 2>/dev/null)" = "$(git rev-parse HEAD), $(rustc -V)" ]; then
		first=$there
	else
		first=$(build_in "one-$arch" "$arch")
	fi
	second=$(build_in "a/much/deeper/second-$arch" "$arch")
	if ! diff <(sums "$first" "$arch") <(sums "$second" "$arch"); then
		trap - EXIT
		echo "transom: two builds differ; both are kept: $first and $second" >&2
		exit 1
	fi
	sums "$first" "$arch"
	echo "transom: two builds in two folders are the same: $arch"
done
