#!/bin/busybox sh
# shellcheck shell=dash
# The first process of a guest (scripts/guest.sh): mounts, modules, the command, its results.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /results /root /etc
/bin/busybox --install -s /transom/busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/transom/busybox
export HOME=/root RESULTS=/results LANG=C.UTF-8

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/console 2>&1
mkdir -p /dev/pts /dev/shm /dev/net
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount --make-rshared /
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr
[ -e /sbin/modprobe ] || ln -s /bin/busybox /sbin/modprobe
echo /sbin/modprobe >/proc/sys/kernel/modprobe
[ -e /etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
[ -e /etc/hosts ] || printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
hostname guest

# In one call: each start of modprobe reads all the module lists.
# shellcheck disable=SC2046 # several words are meant
modprobe -a $(cat /transom/load)
ip link set lo up
if [ -e /transom/disk ]; then
	mkdir -p "$(cat /transom/disk)"
	mount -t ext4 /dev/vda "$(cat /transom/disk)"
fi

port() { # NAME: the device of this virtio port
	for folder in /sys/class/virtio-ports/*; do
		[ "$(cat "$folder/name" 2>/dev/null)" = "$1" ] && echo "/dev/${folder##*/}"
	done
}

out=$(port transom.out)
cd /root || exit
if [ -c "$out" ]; then
	# By its path: busybox takes itself for sh.
	setsid /bin/sh /transom/command >"$out" 2>&1
	echo $? >/results/.status
else
	echo "guest: no port for the output: virtio_console is missing or failed"
fi
tar -C /results -cf "$(port transom.results)" .
sync
# The host has read all when the port is closed; then the machine may go.
reboot -f
