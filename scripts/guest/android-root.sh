#!/usr/bin/env bash
# The root of a phone for a guest (scripts/guest.sh --root android, docs/gki.md).
#
#   scripts/guest/android-root.sh MACHINE ROOT
#
# toybox, mksh, ip and tc of Debian, the libraries that they need, our init and our SELinux policy.
set -euo pipefail

fail() {
	echo "transom: guest: $*" >&2
	exit 1
}

machine=$1 root=$2
here=$(cd "$(dirname "$0")/.." && pwd)
command -v secilc >/dev/null || fail "no secilc, which compiles the SELinux policy: scripts/prerequisites.sh guest"
command -v "qemu-$machine-static" >/dev/null || fail "no qemu-$machine-static: scripts/prerequisites.sh guest"

# What is taken from Debian's packages, and where it lies there.
unpacked=$(mktemp -d "$root.packages.XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
mkdir "$unpacked/usr" "$unpacked/usr"/{bin,sbin,lib}
for folder in bin sbin lib; do
	ln -s "usr/$folder" "$unpacked/$folder"
done
"$here/guest-package.sh" "$machine" closure "$unpacked" toybox mksh iproute2

mkdir -p "$root"/system/{bin,lib64,etc/selinux} "$root"/{data/local/tmp,dev,proc,sys,mnt,transom}
ln -s /system/bin "$root/bin"
ln -s /system/etc "$root/etc"
# A phone has bionic in /system; programs from Debian ask for their loader here.
ln -s /system/lib64 "$root/lib"

bring_libraries() { # FILE
	local name
	"$machine-linux-gnu-readelf" -ld "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r name; do
		[ ! -e "$root/system/lib64/$name" ] || continue
		cp -L "$unpacked/lib/$machine-linux-gnu/$name" "$root/system/lib64/"
		bring_libraries "$root/system/lib64/$name"
	done
}

bring() { # FILE NAME
	cp -L "$unpacked/$1" "$root/system/bin/$2"
	bring_libraries "$unpacked/$1"
}

# What a phone has in /system/bin, as far as Debian has it.
bring bin/mksh sh
bring bin/toybox toybox
# Here, and not by the guest, which takes half a minute for them.
for name in $("qemu-$machine-static" -L "$unpacked" "$unpacked/bin/toybox"); do
	ln -s toybox "$root/system/bin/$name"
done
bring bin/ip ip
bring sbin/tc tc
printf '%s\n' root:x:0:0::/:/system/bin/sh shell:x:2000:2000::/data/local/tmp:/system/bin/sh \
	>"$root/system/etc/passwd"
printf '%s\n' root:x:0: shell:x:2000: >"$root/system/etc/group"
printf '%s\n' '127.0.0.1 localhost' '::1 ip6-localhost' >"$root/system/etc/hosts"
# A phone's toybox has it; Debian's is built without SELinux.
cat >"$root/system/bin/runcon" <<'RUNCON'
#!/system/bin/sh
# runcon CONTEXT COMMAND…
print -n -- "$1" >/proc/self/attr/exec || exit 126
shift
exec "$@"
RUNCON
chmod +x "$root/system/bin/runcon"
secilc --policyvers=33 --output="$root/system/etc/selinux/policy" --filecontext=/dev/null \
	"$here/guest/android.cil"
# The kernel wants it in one write, and the guest's cat writes so much at once.
[ "$(stat -c %s "$root/system/etc/selinux/policy")" -le 4096 ] || fail "the SELinux policy is larger than 4096 bytes"
cp "$here/guest/android-init.sh" "$root/init"
chmod +x "$root/init"
