#!/usr/bin/env bash
# Boots a Debian with systemd in a machine of its own, under QEMU, and installs, runs, upgrades and
# removes the packages of `make dist` there.
#
#   scripts/dist-systemd.sh [SUITE] [PACKAGE.deb…]      bookworm, and the packages in target/packages
#   TRANSOM_GUEST_ACCEL=kvm                             with hardware help; without, about 5 minutes
#
# What is done there is scripts/guest/systemd.sh. The root file system is made by debootstrap, and
# the kernel is the suite's own; both are made once, below target/roots. Needs root for that.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "transom: dist-systemd: $*" >&2
	exit 1
}

suite=${1:-bookworm}
shift || true
dist=${TRANSOM_DIST:-${CARGO_TARGET_DIR:-$PWD/target}/packages}
packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=("$dist"/*_amd64.deb)
[ -e "${packages[0]}" ] || fail "no packages in $dist: make dist"
[ "$(id -u)" = 0 ] || fail "needs root"
command -v qemu-system-x86_64 >/dev/null || fail "no qemu-system-x86_64: scripts/prerequisites.sh dist-systemd"
roots=${CARGO_TARGET_DIR:-$PWD/target}/roots
# What the packages depend on is among them: the machine has no network.
readonly PACKAGES='systemd systemd-sysv dbus udev adduser ca-certificates python3 kmod procps'
machine=$roots/machine-$suite-$(sha256sum <<<"$PACKAGES" | cut -c1-8)
readonly LIMIT=${TRANSOM_GUEST_LIMIT:-900}
# Of the kernel: what the machine is made of, and what programs ask for.
readonly BOOT='virtio_pci virtio_blk ext4 crc32c_generic crc32c-intel'
readonly MODULES="$BOOT virtio_console virtio-rng autofs4 binfmt_misc dummy tcp_diag kernel/net/ipv4 kernel/net/ipv6 kernel/net/sched"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The suite's kernel and a static busybox, unpacked into $work.
fetch_kernel() { # ROOT
	cp /etc/resolv.conf "$1/etc/resolv.conf"
	# shellcheck disable=SC2016 # it is the inner shell's
	chroot "$1" sh -euc '
		apt-get -q update
		cd /tmp
		kernel=$(apt-cache depends --no-recommends linux-image-amd64 | sed -n "s/^ *Depends: \(linux-image-[0-9].*\)/\1/p")
		apt-get -q download "$kernel" busybox-static' >&2
	for package in "$1"/tmp/*.deb; do
		dpkg -x "$package" "$work/kernel"
	done
	rm "$1"/tmp/*.deb
}

# Some of the $modules of kernel $release, in DEST/lib/modules.
take_modules() { # DEST NAMES
	local tree=$1/lib/modules/$release
	mkdir -p "$tree"
	awk -v wanted="$2" -f scripts/guest-modules.awk "$modules/$release/modules.dep" |
		(cd "$modules/$release" && cpio -pdm --quiet "$tree")
	cp "$modules/$release"/modules.{builtin,order,builtin.modinfo} "$tree"
	find "$tree" -name '*.xz' -exec xz -d {} +
	/sbin/depmod -b "$1" "$release"
}

# What mounts the disk and starts systemd on it.
make_initrd() {
	local root=$work/initrd
	mkdir -p "$root"/{bin,proc,sys,dev,root}
	cp "$(find "$work/kernel" -type f -path "*/bin/busybox")" "$root/bin/busybox"
	take_modules "$root" "$BOOT"
	cat >"$root/init" <<-END
		#!/bin/busybox sh
		/bin/busybox mount -t devtmpfs devtmpfs /dev
		for module in $BOOT; do /bin/busybox modprobe \$module; done
		/bin/busybox mount -t ext4 /dev/vda /root
		/bin/busybox mount -o move /dev /root/dev
		exec /bin/busybox switch_root /root /sbin/init
	END
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$machine.new/initrd"
}

# What runs the test when the system is up, and once more after the reboot.
add_test() { # ROOT
	mkdir -p "$1/home/someone" "$1/var/transom-test"
	echo secret >"$1/home/someone/secret"
	: >"$1/etc/machine-id"
	echo '/dev/vda / ext4 defaults 0 1' >"$1/etc/fstab"
	echo guest >"$1/etc/hostname"
	echo '127.0.0.1 localhost guest' >"$1/etc/hosts"
	cat >"$1/etc/systemd/system/test.service" <<-'END'
		[Service]
		ExecStart=/usr/local/sbin/run-test
		[Install]
		WantedBy=multi-user.target
	END
	ln -s /etc/systemd/system/test.service "$1/etc/systemd/system/multi-user.target.wants/test.service"
	cat >"$1/usr/local/sbin/run-test" <<-'END'
		#!/bin/sh
		modprobe -a virtio_console virtio-rng
		until [ -c /dev/virtio-ports/transom.out ]; do sleep 0.2; done
		exec </dev/null >/dev/virtio-ports/transom.out 2>&1
		cd /var/transom-test
		part=before
		[ ! -e rebooted ] || part=after
		tar --no-same-owner -xf /dev/vdb
		echo "== $(. /etc/os-release; echo "$PRETTY_NAME"), Linux $(uname -r), $(systemctl --version | head -n 1): $(systemctl is-system-running --wait)"
		sh ./systemd.sh "$part" || systemctl poweroff
		touch rebooted
		[ "$part" = after ] && systemctl poweroff || systemctl reboot
	END
	chmod +x "$1/usr/local/sbin/run-test"
}

make_machine() {
	local tar root=$work/root modules release
	# shellcheck disable=SC2086
	tar=$(scripts/dist-root.sh "$suite" $PACKAGES)
	mkdir -p "$root" "$machine.new" "$work/kernel"
	tar -C "$root" -x <"$tar"
	fetch_kernel "$root"
	# Older releases have it in /lib, newer ones in /usr/lib.
	modules=$(find "$work/kernel" -type d -name modules | head -n 1)
	release=$(ls "$modules")
	/sbin/depmod -b "${modules%/lib/modules}" "$release"
	take_modules "$root/usr" "$MODULES"
	make_initrd
	add_test "$root"
	cp "$work/kernel"/boot/vmlinuz-* "$machine.new/vmlinuz"
	/sbin/mke2fs -q -t ext4 -d "$root" "$machine.new/disk" 2G
	mv "$machine.new" "$machine"
	rm -rf "${work:?}"/*
}

# The same package as a later version.
as_newer() { # PACKAGE.deb INTO
	local tree=$work/newer-tree
	rm -rf "$tree"
	dpkg-deb -R "$1" "$tree"
	sed -i 's/^Version: .*/&+newer/' "$tree/DEBIAN/control"
	dpkg-deb --root-owner-group -Zgzip --build "$tree" "$2" >/dev/null
}

rm -rf "$machine.new"
[ -e "$machine/disk" ] || make_machine
test=$work/test
mkdir -p "$test/newer"
cp scripts/guest/{systemd.sh,connections.py,forbidden.py,objects.py} "${packages[@]}" "$test/"
for package in "${packages[@]}"; do
	as_newer "$package" "$test/newer/"
done
tar -C "$test" -cf "$work/test.tar" .

# The disk is left as it is: what is written goes to a file that ends with QEMU.
timeout --foreground "$LIMIT" qemu-system-x86_64 -nodefaults -no-user-config -display none \
	-machine pc -cpu max -accel "${TRANSOM_GUEST_ACCEL:-tcg}" -smp 2 -m 1536 \
	-kernel "$machine/vmlinuz" -initrd "$machine/initrd" \
	-append "console=ttyS0 loglevel=5 mitigations=off no5lvl random.trust_cpu=on panic=-1" \
	-serial "file:$work/console" -device virtio-rng-pci \
	-drive "if=virtio,format=raw,snapshot=on,file=$machine/disk" \
	-drive "if=virtio,format=raw,readonly=on,file=$work/test.tar" \
	-device virtio-serial-pci -chardev file,id=out,path=/dev/stdout \
	-device virtserialport,chardev=out,name=transom.out </dev/null | tee "$work/out" || true
if ! grep -q 'dist-systemd: passed' "$work/out"; then
	echo "transom: dist-systemd: the last lines of the machine's console:" >&2
	tail -n 25 "$work/console" >&2
	exit 1
fi
