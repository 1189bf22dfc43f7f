#!/system/bin/sh
# shellcheck shell=ksh
# A phone to which adb comes by TCP: in a guest of scripts/gki-adb.sh, until there is a file `done`.
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
library=/data/adbd/usr/lib/aarch64-linux-gnu
ADBD_PORT=5555 "$library/ld-linux-aarch64.so.1" --library-path "$library:$library/android" \
	/data/adbd/usr/lib/android-sdk/platform-tools/adbd >/data/results/adbd.txt 2>&1 &
print "adbd listens"
until [ -e /data/local/tmp/done ]; do sleep 1; done
kill $!
