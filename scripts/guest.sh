#!/usr/bin/env bash
# Runs a command as root on a Debian kernel in a machine of its own, under QEMU.
#
#   scripts/guest.sh [OPTION]… -- COMMAND [ARGUMENT]…
#
#   --arch x86_64|aarch64   the guest's machine, by default this one's
#   --kernel PACKAGE        Debian's kernel, by default linux-image-amd64 or -arm64; gki-4k or gki-16k
#                           (aarch64): as a phone has it, once scripts/gki-kernel.sh has built it
#   --root android          a phone's root instead of busybox (docs/gki.md): toybox and mksh, SELinux
#                           enforcing, only /data to be written; files go to /data/local/tmp
#   --root small            busybox alone, its shell too, and no modules but those loaded at the start:
#                           all that takes memory in a guest with little
#   --cpus N, --memory MB   by default 2 and 2048
#   --clock instructions    the guest's clock counts instructions, one a nanosecond, and while no
#                           processor runs it jumps to when one will
#   --limit SECONDS         the guest is ended after them, by default 180
#   --file SRC[:DEST]       a file or folder of this machine, by default in the same place there; a
#                           name without '/' is a program of this machine. What programs link comes too.
#   --package PACKAGE       a Debian package of the guest's machine and all it depends on
#   --module NAME           one more module of the kernel to load
#   --append WORDS          more parameters of the kernel
#   --disk IMAGE:FOLDER     an ext4 file system, mounted there; what is written to it is gone in the end
#   --forward PORT:PORT     from loopback here to the guest's eth0, 10.0.2.15; nothing else goes in or out
#   --results FOLDER        where to put what the command leaves in $RESULTS
#
# The command's output, both kinds, goes to standard output, and its exit code
# is that of this script; 124: the limit was reached, 125: the guest failed.
# The guest has /proc, /sys, bpffs, cgroup v2, debugfs, and no network but its own.
# No hardware help is used, so it is some 10 times slower; TRANSOM_GUEST_ACCEL=kvm changes that.
set -euo pipefail

fail() {
	echo "transom: guest: $*" >&2
	exit 125
}

here=$(cd "$(dirname "$0")" && pwd)
machine=$(uname -m) kernel='' base=busybox cpus=2 memory=2048 limit=180 results='' disk='' clock=host append='' forward=''
files=() packages=() modules=()
while [ $# -gt 0 ]; do
	case $1 in
	--arch) machine=$2 ;;
	--kernel) kernel=$2 ;;
	--root) base=$2 ;;
	--cpus) cpus=$2 ;;
	--memory) memory=$2 ;;
	--clock) clock=$2 ;;
	--append) append=$2 ;;
	--forward) forward=$2 ;;
	--limit) limit=$2 ;;
	--file) files+=("$2") ;;
	--package) packages+=("$2") ;;
	--module) modules+=("$2") ;;
	--disk) disk=$2 ;;
	--results) results=$2 ;;
	--) break ;;
	*) fail "no option '$1': see the head of scripts/guest.sh" ;;
	esac
	[ $# -ge 2 ] || fail "$1 needs a value"
	shift 2
done
[ $# -ge 2 ] || fail "-- COMMAND is missing"
shift

case $machine in
x86_64) kernel=${kernel:-linux-image-amd64} qemu=qemu-system-x86_64 ;;
aarch64) kernel=${kernel:-linux-image-arm64} qemu=qemu-system-aarch64 ;;
*) fail "no guest for the machine '$machine': x86_64 or aarch64" ;;
esac
case $base/$kernel in
busybox/* | small/* | android/gki-*) ;;
android/*) fail "--root android needs SELinux in the kernel: --kernel gki-4k or gki-16k" ;;
*) fail "no root '$base': busybox, small or android" ;;
esac
case $clock in
host) counted=() ;;
instructions) counted=(-icount "shift=0,sleep=off") ;;
*) fail "no clock '$clock': instructions" ;;
esac
command -v "$qemu" >/dev/null || fail "$qemu is missing: scripts/prerequisites.sh guest"

# Modules that networks of all our tests may ask for; folders with all that is in them.
MODULES='virtio_pci virtio_mmio virtio_console virtio-rng virtio_blk ext4 veth tun dummy ifb bridge macvlan
	kernel/net/sched kernel/net/ipv4 kernel/net/ipv6 kernel/net/802 kernel/net/mptcp af_packet_diag
	crc32c_generic crc32c-intel cls_bpf'
# Loaded at the start; the others when something asks for them. Of two tests that ask for veth at the same
# time, busybox would tell one that it is there before it is.
readonly LOAD='virtio_pci virtio_mmio virtio_console virtio-rng tcp_diag tun veth'
[ "$base" != small ] || MODULES="$LOAD virtio_blk ext4 crc32c_generic"

mkdir -p "$here/../target/guest"
work=$(mktemp -d "$here/../target/guest/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"

# The modules of a kernel as an archive, made once.
modules_of() { # FOLDER
	local release archive tree
	release=$(ls "$1/lib/modules")
	archive=$1/modules-$(sha256sum <<<"$MODULES ${modules[*]}" | cut -c1-12).cpio
	if [ ! -e "$archive" ]; then
		tree=$work/modules/usr/lib/modules/$release
		mkdir -p "$tree"
		awk -v wanted="${MODULES//$'\n'/ } ${modules[*]}" -f "$here/guest-modules.awk" \
			"$1/lib/modules/$release/modules.dep" |
			(cd "$1/lib/modules/$release" && cpio -pdm --quiet "$tree")
		cp "$1/lib/modules/$release"/modules.{builtin,order,builtin.modinfo} "$tree"
		find "$tree" -name '*.xz' -exec xz -d {} +
		mkdir "$work/modules/lib" && mv "$work/modules/usr/lib/modules" "$work/modules/lib/"
		/sbin/depmod -b "$work/modules" "$release"
		mv "$work/modules/lib/modules" "$work/modules/usr/lib/"
		rmdir "$work/modules/lib"
		(cd "$work/modules" && find . | cpio -o -H newc -R 0:0 --quiet) >"$archive.new"
		mv "$archive.new" "$archive"
	fi
	echo "$archive"
}

# Names of what a program of this machine is linked with.
libraries() { # FILE
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true
}

# The same for another machine: its cross libraries, or those of packages in the guest already.
foreign_libraries() { # FILE
	local name found
	"$machine-linux-gnu-readelf" -ld "$1" 2>/dev/null |
		sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p; s/.*interpreter: .*\/\(.*\)\]/\1/p' |
		while read -r name; do
			[ -n "$(find "$root/usr/lib" -name "$name" -print -quit)" ] && continue
			found=/usr/$machine-linux-gnu/lib/$name
			[ -e "$found" ] || fail "$1 needs $name: name its package with --package"
			cp -L "$found" "$root/usr/lib/$name"
			foreign_libraries "$found"
		done
}

bring_libraries() { # FILE
	local library
	if [ "$machine" != "$(uname -m)" ]; then
		foreign_libraries "$1"
		return
	fi
	for library in $(libraries "$1"); do
		[ -e "$root$library" ] && continue
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
}

bring() { # SRC[:DEST]
	local source=${1%%:*} destination file
	case $source in
	*/*) ;;
	*)
		source=$(PATH=$PATH:/usr/sbin:/sbin type -P "$source") ||
			fail "no program '$1' here: name its package with --package, or install it"
		;;
	esac
	[ -e "$source" ] || fail "there is no $source"
	source=$(realpath -s "$source")
	destination=$source
	[ "$base" != android ] || destination=/data/local/tmp/${source##*/}
	case $1 in *:*) destination=${1#*:} ;; esac
	mkdir -p "$root$(dirname "$destination")"
	if [ -d "$source" ]; then
		cp -a "$source/." "$root$destination"
		while IFS= read -r -d '' file; do
			bring_libraries "$file"
		done < <(find "$source" -type f \( -name '*.so' -o -perm -u+x \) -print0)
		return
	fi
	cp -L "$source" "$root$destination"
	# Debug information is nine tenths of a debug build, and the guest's disk is its memory.
	case $(od -An -tx1 -N4 "$source") in
	*'7f 45 4c 46')
		[ "$machine" != "$(uname -m)" ] || strip --strip-debug "$root$destination" 2>/dev/null || true
		bring_libraries "$source"
		;;
	esac
}

# What the guest's root is made of before files come to it.
busybox_root() {
	local busybox folder
	mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root/transom/busybox"
	for folder in bin sbin lib lib64; do
		ln -s "usr/$folder" "$root/$folder"
	done
	busybox=$("$here/guest-package.sh" "$machine" files busybox-static)
	cp "$busybox"/bin/busybox "$root/bin/busybox"
	# The shell of busybox takes its own ip, ping and tar for those of the guest, so it is not the guest's.
	if [ "$base" = small ]; then
		ln -s busybox "$root/bin/sh"
	elif [ "$machine" = "$(uname -m)" ]; then
		files=(/bin/sh "${files[@]}")
	else
		packages=(dash "${packages[@]}")
	fi
	cp "$here/guest-init.sh" "$root/init"
	chmod +x "$root/init"
}

case $kernel in
gki-*)
	[ "$machine" = aarch64 ] || fail "the kernel $kernel is one for --arch aarch64"
	series=6.12 pages=${kernel#gki-}
	case $pages in *-*) series=${pages%-*} pages=${pages##*-} ;; esac
	folder=$("$here/gki-kernel.sh" --built --series "$series" "$pages") || exit 125
	;;
*) folder=$("$here/guest-package.sh" "$machine" kernel "$kernel") ;;
esac
case $base in
busybox | small)
	archive=$(modules_of "$folder")
	busybox_root
	;;
android)
	archive=/dev/null
	"$here/guest/android-root.sh" "$machine" "$root"
	;;
esac
[ ${#packages[@]} = 0 ] || "$here/guest-package.sh" "$machine" closure "$root" "${packages[@]}"
for file in "${files[@]}"; do
	bring "$file"
done
[ -e "$root/bin/sh" ] || [ "$base" = android ] || ln -s dash "$root/bin/sh"
echo "$LOAD ${modules[*]} ${disk:+virtio_blk ext4}" >"$root/transom/load"
[ -z "$disk" ] || echo "${disk#*:}" >"$root/transom/disk"
for word in "$@"; do
	printf "'%s' " "${word//\'/\'\\\'\'}"
done >"$root/transom/command"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/files.cpio"
cat "$archive" "$work/files.cpio" >"$work/initrd"
rm -rf "$root" "$work/files.cpio"

accelerator=${TRANSOM_GUEST_ACCEL:-tcg}
if [ "$machine" = x86_64 ]; then
	# With a thread per processor one may meet the breakpoint of a probe that is attached after it
	# was taken away again, and the kernel panics (int3 in tcp_rcv_established).
	[ "$accelerator" != tcg ] || accelerator=tcg,thread=single
	board=(-machine pc -cpu max -device virtio-serial-pci -device virtio-rng-pci)
	block=virtio-blk-pci
	console='console=ttyS0 no5lvl'
else
	# The older cores have no pages of 16 KiB.
	core=cortex-a72
	[[ $kernel != gki-* ]] || core=cortex-a76
	board=(-machine virt -cpu "$core" -device virtio-serial-device -device virtio-rng-device)
	block=virtio-blk-device
	console='console=ttyAMA0'
fi
if [ -n "$disk" ]; then
	board+=(-drive "if=none,id=disk,format=raw,snapshot=on,file=${disk%%:*}" -device "$block,drive=disk")
fi
if [ -n "$forward" ]; then
	board+=(-netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:${forward%:*}-:${forward#*:}")
	board+=(-device "${block/blk/net},netdev=net")
fi
status=0
# Output goes through a pipe, because QEMU would cut a file that standard output is.
# A root file system of type ramfs has no limit of half the memory, as a tmpfs has.
timeout --foreground "$limit" "$qemu" -nodefaults -no-user-config -no-reboot -display none \
	"${board[@]}" "${counted[@]}" -accel "$accelerator" -smp "$cpus" -m "$memory" \
	-kernel "$folder"/boot/vmlinuz-* -initrd "$work/initrd" \
	-append "$console loglevel=5 panic=-1 mitigations=off rootfstype=ramfs random.trust_cpu=on $append" \
	-serial "file:$work/console" \
	-chardev file,id=out,path=/dev/stdout -device virtserialport,chardev=out,name=transom.out \
	-chardev "file,id=results,path=$work/results.tar" \
	-device virtserialport,chardev=results,name=transom.results </dev/null | cat || status=$?

[ "$status" != 124 ] || echo "transom: guest: ended after $limit s (--limit)" >&2
code=$(tar -xOf "$work/results.tar" ./.status 2>/dev/null || true)
if [ -z "$code" ]; then
	echo "transom: guest: the last lines of its console:" >&2
	tail -n 25 "$work/console" >&2 || true
	[ "$status" = 124 ] || status=125
	exit "$status"
fi
# Warnings of the kernel concern whoever ran the command, also if it ended well.
grep -aE 'WARNING:|BUG:|Oops|Call Trace' "$work/console" >&2 || true
if [ -n "$results" ]; then
	mkdir -p "$results"
	tar -C "$results" --no-same-owner -xf "$work/results.tar" --exclude=./.status
fi
exit "$code"
