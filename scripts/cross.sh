#!/usr/bin/env bash
# cargo for another machine.
#
#   scripts/cross.sh MACHINE COMMAND [ARGUMENT]…
#
#   scripts/cross.sh aarch64 build --release -p transom
#   scripts/cross.sh aarch64 test -p transom-netstack       runs them under qemu-user
#
# MACHINE is aarch64. What is built is linked statically, the C library too, so
# it runs on every Linux of that machine, whatever libraries it has. The native
# toolchain is left as it is: the standard library comes from rustup, where
# there is one, or else with a compiler of Debian's, unpacked under target.
# TRANSOM_RUSTFLAGS and TRANSOM_CFLAGS are added to the compilers' options; TRANSOM_LINK=-crt-static
# links to the machine's own C library.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: $*" >&2
	exit 1
}

[ $# -ge 2 ] || fail "cross.sh MACHINE COMMAND: see the head of scripts/cross.sh"
machine=$1
shift
[ "$machine" != "$(uname -m)" ] || exec cargo "$@"
[ "$machine" = aarch64 ] || fail "no cross build for the machine '$machine': aarch64"
readonly TRIPLE=$machine-unknown-linux-gnu
readonly GCC=$machine-linux-gnu-gcc
command -v "$GCC" >/dev/null || fail "no $GCC: scripts/prerequisites.sh arm64"
command -v apt-get >/dev/null || fail "the libraries for $machine come from Debian's packages: no apt-get here"

has_standard_library() {
	compgen -G "$(rustc --print target-libdir --target "$TRIPLE" 2>/dev/null)/libstd-*.rlib" >/dev/null
}

# What this machine lacks of the libraries that a compiler from a package needs.
lacking_libraries() { # FOLDER
	local library
	mkdir -p "$1/lacking"
	for library in "$1/usr/lib/$(uname -m)-linux-gnu"/*.so*; do
		[ -e "/usr/lib/$(uname -m)-linux-gnu/${library##*/}" ] || ln -sfn "$library" "$1/lacking/"
	done
}

# Debian's compiler with its standard library for both machines. Prints the compiler.
debian_rust() {
	local folder=$PWD/target/cross/$machine other
	if [ ! -e "$folder/complete" ]; then
		rm -rf "$folder"
		mkdir -p "$folder"
		scripts/guest-package.sh "$(uname -m)" closure "$folder" rustc-web
		other=$(scripts/guest-package.sh "$machine" files libstd-rust-web-dev)
		cp -a "$other/usr/lib/rustlib/$TRIPLE" "$folder/usr/lib/rustlib/"
		lacking_libraries "$folder"
		cat >"$folder/rustc" <<-END
			#!/bin/sh
			export LD_LIBRARY_PATH="$folder/lacking\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
			exec "$folder/usr/bin/rustc" --sysroot "$folder/usr" "\$@"
		END
		chmod +x "$folder/rustc"
		: >"$folder/complete"
	fi
	echo "$folder/rustc"
}

if ! has_standard_library; then
	if ! command -v rustup >/dev/null || ! rustup target add "$TRIPLE"; then
		RUSTC=$(debian_rust)
		export RUSTC
	fi
fi

elf=$(scripts/guest-package.sh "$machine" files libelf-dev)
zlib=$(scripts/guest-package.sh "$machine" files zlib1g-dev)
export CC_aarch64_unknown_linux_gnu=$GCC
export AR_aarch64_unknown_linux_gnu=$machine-linux-gnu-ar
export CFLAGS_aarch64_unknown_linux_gnu="-I$elf/usr/include -I$zlib/usr/include ${TRANSOM_CFLAGS:-}"
export LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu=$elf/usr/lib/$machine-linux-gnu:$zlib/usr/lib/$machine-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$GCC
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=${TRANSOM_LINK:-+crt-static} ${TRANSOM_RUSTFLAGS:-}"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-$machine-static
command=$1
shift
exec cargo "$command" --target "$TRIPLE" "$@"
