#!/system/bin/sh
# shellcheck shell=ksh
# The first process of a guest with a phone's root: mounts, SELinux, the command, its results.
# A phone's kernel has no /tmp, /run, /usr, and only /data can be written.
export PATH=/system/bin HOME=/ TMPDIR=/data/local/tmp RESULTS=/data/results
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/console 2>&1
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount -t selinuxfs selinuxfs /sys/fs/selinux
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
hostname localhost
rmdir /root
ifconfig lo 127.0.0.1 up

# The policy is read at once, or not at all.
cat /system/etc/selinux/policy >/sys/fs/selinux/load ||
	print "guest: the kernel does not take the SELinux policy"
print -n u:r:init:s0 >/proc/self/attr/current
print -n 1 >/sys/fs/selinux/enforce

# What was pushed moves to where it can be written and run, and the rest becomes read-only.
mount -t tmpfs -o mode=0771,context=u:object_r:shell_data_file:s0 data /mnt
for file in /data/*; do
	cp -a "$file" /mnt/ && rm -rf "$file"
done
mkdir -p /mnt/results
disk=$(cat /transom/disk 2>/dev/null)
mount --move /mnt /data
chown -R 2000:2000 /data/local/tmp
chmod 771 /data/local/tmp
[ -z "$disk" ] || { mkdir -p "$disk" && mount -t ext4 /dev/vda "$disk"; }

port() { # NAME: the device of this virtio port
	for folder in /sys/class/virtio-ports/*; do
		[ "$(cat "$folder/name" 2>/dev/null)" = "$1" ] && print "/dev/${folder##*/}"
	done
}

out=$(port transom.out)
results=$(port transom.results)
mount -o remount,ro /
cd /data/local/tmp || exit
if [ -c "$out" ]; then
	setsid runcon u:r:su:s0 sh /transom/command >"$out" 2>&1
	print $? >/data/results/.status
else
	print "guest: no port for the output"
fi
dmesg >/data/results/dmesg.txt
tar -C /data/results -cf "$results" .
sync
reboot -f
