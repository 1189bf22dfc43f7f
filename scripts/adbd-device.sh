#!/usr/bin/env bash
# Becomes a device for adb: Android's adbd on this machine, in a mount namespace of its own with a
# /data of its own, and with a phone's shell and tools (mksh, toybox) in the place of ours. Tests start
# it in a network namespace, where it listens on a TCP port.
#
#   scripts/adbd-device.sh ADBD PORT DATA [USER [su]]
#
# ADBD is the folder that scripts/adbd.sh prints. DATA is a folder, or a size such as 64M for a file
# system of its own, which goes with the device. USER is the number of the user that adbd and its
# shells are, by default root; Android's is 2000. `su` gives root without a password if asked for.
# Needs root.
set -euo pipefail

if [ "${TRANSOM_DEVICE_APART:-}" = '' ]; then
	TRANSOM_DEVICE_APART=yes exec unshare --mount --propagation private "$0" "$@"
fi
adbd=$1 port=$2 data=$3 user=${4:-0} su=${5:-no}
# The folder is only where this namespace mounts what others do not see.
root=$adbd/device
mkdir -p "$root"
mount -t tmpfs device "$root"
cd "$root"
mkdir -p usr etc proc sys dev run data tmp root adbd system/bin
chmod 1777 tmp
# Libraries of ours, for programs of tests that are not static; programs are a phone's.
ln -s usr/lib lib
ln -s usr/lib64 lib64
ln -s system/bin bin
for folder in usr etc proc sys dev; do
	mount --rbind "/$folder" $folder
done
mount --bind "$adbd" adbd
case $data in
/*) mount --bind "$data" data ;;
*) mount -t tmpfs -o "size=$data" data data ;;
esac
mkdir -p data/local/tmp
chown "$user:$user" data/local/tmp
# Not by `uname -m`, which a 32-bit personality changes.
loader=$(echo "$adbd"/usr/lib/*-linux-gnu/ld-linux-*)
library=$(dirname "/adbd${loader#"$adbd"}")
loader=$(basename "$loader")
cp -L "$adbd"/usr/bin/mksh-static system/bin/sh
for name in $("$adbd${library#/adbd}/$loader" --argv0 toybox --library-path "$adbd${library#/adbd}" \
	"$adbd"/usr/bin/toybox); do
	printf '#!/system/bin/sh\nexec %s --argv0 %s --library-path %s /adbd/usr/bin/toybox "$@"\n' \
		"$library/$loader" "$name" "$library" >"system/bin/$name"
	chmod 755 "system/bin/$name"
done
rm -f system/bin/su
printf '%s\n' root:x:0:0::/:/bin/sh shell:x:2000:2000::/data/local/tmp:/bin/sh >system/passwd
printf '%s\n' root:x:0: shell:x:2000: >system/group
mount --bind system/passwd etc/passwd
mount --bind system/group etc/group
if [ "$user" != 0 ] && [ "$su" = su ]; then
	ln -s /usr/bin/su system/bin/su
	printf '%s\n' 'auth required pam_permit.so' 'account required pam_permit.so' 'session required pam_permit.so' >system/pam
	mount --bind system/pam etc/pam.d/su
fi
# Its environment is that of every shell: what the tests have in theirs is none of a device's.
exec env -i "ADBD_PORT=$port" PATH=/system/bin /usr/sbin/chroot "--userspec=$user:$user" "$root" "$library/$loader" \
	--library-path "$library:$library/android" /adbd/usr/lib/android-sdk/platform-tools/adbd
