#!/usr/bin/env bash
# CI's share of `make matrix`: the rows that guests.toml calls `part`, on a guest of each architecture. Tests
# that fail are run once more, alone: a machine that others share disturbs guests, too.
#
#   TRANSOM_MATRIX=part scripts/matrix/ci.sh
#
# Without that variable it does nothing. What this machine lacks for a guest is said and is no error,
# unless TRANSOM_REQUIRE lists `qemu`.
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${TRANSOM_MATRIX:-} in
'') exit ;;
part) ;;
*)
	echo "transom: TRANSOM_MATRIX is '$TRANSOM_MATRIX': part, or nothing" >&2
	exit 1
	;;
esac
scripts/prerequisites.sh guest arm64 || echo "transom: not all that guests need could be installed" >&2
scripts/matrix/run.py --part --if-possible || scripts/matrix/run.py --part --if-possible --again
