#!/usr/bin/env bash
# Programs on the library on a kernel of another machine (scripts/guest.sh): every
# test of library, interfaces and supervisor, then transfers over two paths.
#
#   scripts/netstack-guest.sh MACHINE [CRATE]…   by default: netstack library-stack nic supervisor
#
#   TRANSOM_GUEST_KERNEL=PACKAGE   another kernel than Debian's newest
#   TRANSOM_GUEST_LIMIT=SECONDS    by default 1800
set -euo pipefail
cd "$(dirname "$0")/.."

machine=$1
shift
[ $# -gt 0 ] || set -- netstack library-stack nic supervisor
readonly PACKAGES='curl gcc iperf3 iproute2 iputils-ping kmod libc6-dev procps python3 util-linux wget'

packages=() files=()
for name in "$@"; do
	packages+=(-p "transom-$name")
	files+=(--file "crates/$name")
done
scripts/cross.sh "$machine" build --release --locked \
	-p transom -p transom-library-stack -p transom-supervisor
mkdir -p target/guest
# One line a test program: its package's folder, itself.
scripts/cross.sh "$machine" test --release --locked --no-run --message-format=json "${packages[@]}" |
	sed -n '/"overflow_checks":[a-z]*,"test":true/s/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1 \2/p' |
	sort -u >target/guest/tests
[ -s target/guest/tests ] || {
	echo "transom: cargo named no tests" >&2
	exit 1
}
built=${CARGO_TARGET_DIR:-target}/$machine-unknown-linux-gnu/release
for file in $(cut -d' ' -f2 target/guest/tests) "$built"/transom-{netstack,run-host}; do
	files+=(--file "$file")
done
for program in transom transom-netstack; do
	files+=(--file "$built/$program:/usr/bin/$program")
done
for name in $PACKAGES; do
	files+=(--package "$name")
done
for module in 8021q cls_bpf mptcp_diag; do
	files+=(--module "$module")
done
scripts/guest.sh --arch "$machine" ${TRANSOM_GUEST_KERNEL:+--kernel "$TRANSOM_GUEST_KERNEL"} \
	--memory 4096 --limit "${TRANSOM_GUEST_LIMIT:-1800}" "${files[@]}" \
	--file target/guest/tests:/root/tests --file scripts/netstack-guest-tests.sh:/root/run \
	--file scripts/netstack-guest-paths.sh:/root/paths -- sh -c 'sh /root/run && sh /root/paths'
