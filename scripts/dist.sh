#!/usr/bin/env bash
# Packs what `make dist` gives: target/packages/ with .deb packages, tarballs and SHA256SUMS.
#
#   scripts/dist.sh [ARCH]…                    amd64 and arm64; builds first
#   TRANSOM_PROGRAMS=FOLDER scripts/dist.sh ARCH    packs programs that are built already
#   TRANSOM_DIST=FOLDER                        writes there
#   TRANSOM_MANUAL=FOLDER                      takes pages and completions that are made already
#   TRANSOM_MAINTAINER='NAME <ADDRESS>'        who packs: for the packages and their changelogs
#
# The same commit gives the same bytes: times are the commit's, owners root, names sorted, modes not the packer's.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
target=${CARGO_TARGET_DIR:-$PWD/target}
dist=${TRANSOM_DIST:-$target/packages}
manual=${TRANSOM_MANUAL:-$target/manual}
maintainer=${TRANSOM_MAINTAINER:-Transom maintainers <nobody@transom.invalid>}
readonly MOST_TRANSOM=$((12 * 1000 * 1000)) MOST_AGENT=$((6 * 1000 * 1000)) MOST_FLEET=$((12 * 1000 * 1000))
readonly MOST_DRILL=$((10 * 1000 * 1000))
readonly PROGRAMS="transom transom-agent transom-fleet transom-drill"
# Of Debian 12 and Ubuntu 24.04, and newer: packed relocations need it, too.
readonly NEWEST_GLIBC=2.36

fail() {
	echo "transom: $*" >&2
	exit 1
}

make_manual() {
	rm -rf "$manual"
	TRANSOM_MANUAL=$manual cargo test --quiet --locked -p transom -p transom-agent -p transom-fleet -p transom-drill --bins manual:: >&2
}

check_size() { # FILE MOST
	local size
	size=$(stat -c %s "$1")
	echo "$(basename "$1"): $size bytes"
	[ "$size" -le "$2" ] || fail "$1 has more than $2 bytes"
}

# What transom-drill asks of the C library, the other programs of none.
check_libc() { # FILE
	local newest
	newest=$(objdump -T "$1" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
	newest=$(printf '%s\n' "${newest#GLIBC_}" "$NEWEST_GLIBC" | sort -V | tail -n 1)
	[ "$newest" = "$NEWEST_GLIBC" ] || fail "$1 needs glibc $newest, and its package says $NEWEST_GLIBC"
}

# A copy of what was built, without its symbols; sets `programs`.
strip_programs() {
	local strip=strip program
	[ "$arch" = "$(dpkg --print-architecture)" ] || strip=aarch64-linux-gnu-strip
	rm -rf "${work:?}"/*
	programs=$work/programs
	mkdir -p "$programs"
	for program in $PROGRAMS; do
		"$strip" -o "$programs/$program" "$built/$program"
	done
}

put() { # MODE FILE INTO
	install -D -m "$1" "$2" "$3"
}

put_units() { # ROOT UNIT…
	local root=$1 unit
	shift
	for unit; do
		put 644 "packaging/systemd/$unit.service" "$root/usr/lib/systemd/system/$unit.service"
	done
}

put_page() { # PAGE INTO
	mkdir -p "$2"
	local name=${1##*/}
	gzip -9n <"$1" >"$2/$name.gz"
}

# Those of the package's own program; all others are of transom.
pages_of() { # PACKAGE
	local page of
	for page in "$manual"/man/*.1; do
		case $(basename "$page") in
		transom-agent.1) of=transom-agent ;;
		transom-fleet.1 | transom-fleet-*.1) of=transom-fleet ;;
		transom-drill.1 | transom-drill-*.1) of=transom-drill ;;
		*) of=transom ;;
		esac
		[ "$of" != "$1" ] || echo "$page"
	done
}

stage_common() { # PACKAGE ROOT
	local package=$1 root=$2 share=$2/usr/share page
	put 755 "$programs/$package" "$root/usr/bin/$package"
	for page in $(pages_of "$package"); do
		put_page "$page" "$share/man/man1"
	done
	put 644 "$manual/bash/$package.bash" "$share/bash-completion/completions/$package"
	put 644 "$manual/zsh/_$package" "$share/zsh/vendor-completions/_$package"
	put 644 "$manual/fish/$package.fish" "$share/fish/vendor_completions.d/$package.fish"
}

stage_monitoring() { # INTO
	put 644 packaging/grafana/transom.json "$1/grafana/transom.json"
	put 644 packaging/prometheus/transom.rules.yml "$1/prometheus/transom.rules.yml"
}

stage_fleet() { # INTO
	put 755 packaging/fleet/compact.py "$1/fleet/compact.py"
	put 755 packaging/fleet/iceberg.py "$1/fleet/iceberg.py"
	put 644 packaging/fleet/bucket-policy.json "$1/fleet/bucket-policy.json"
}

licence() { # FILE: as control files want continued text
	sed 's/^$/./; s/^/ /' "LICENSES/$1"
}

# As dpkg-gencontrol counts: whole KiB of each file, and one for each folder, whose own size is the file system's.
installed_size() { # ROOT
	find "$1" -mindepth 1 -path "$1/DEBIAN" -prune -o -printf '%y %s\n' |
		awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }'
}

stage_debian() { # PACKAGE ROOT ARCH
	local package=$1 root=$2 doc=$2/usr/share/doc/$1 script
	mkdir -p "$doc" "$root/DEBIAN"
	awk -v mit="$(licence MIT.txt)" -v bsd="$(licence BSD-2-Clause.txt)" \
		'$0 == "MIT_TEXT" { print mit; next } $0 == "BSD_TEXT" { print bsd; next } 1' \
		packaging/debian/copyright >"$doc/copyright"
	sed -e "s/PACKAGE/$package/; s/VERSION/$version/; s/MAINTAINER/$maintainer/" \
		-e "s/DATE/$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")/" packaging/debian/changelog |
		gzip -9n >"$doc/changelog.gz"
	put 644 "packaging/debian/$package.lintian-overrides" "$root/usr/share/lintian/overrides/$package"
	for script in postinst prerm postrm; do
		[ ! -e "packaging/debian/$package.$script" ] ||
			put 755 "packaging/debian/$package.$script" "$root/DEBIAN/$script"
	done
	[ ! -e "packaging/debian/$package.conffiles" ] ||
		put 644 "packaging/debian/$package.conffiles" "$root/DEBIAN/conffiles"
	(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"
	awk -v RS= -v package="$package" '$2 == package' packaging/debian/control |
		sed "/^Section:/i Version: $version\nArchitecture: $3\nMaintainer: $maintainer\nInstalled-Size: $(installed_size "$root")" \
			>"$root/DEBIAN/control"
}

# The program that a phone is sent (crates/android), for hosts of any machine.
pack_phone() {
	put 755 "$programs/transom" "$work/transom-android/usr/share/transom/transom-aarch64"
	build_debian transom-android all
}

pack_debian() { # PACKAGE
	local package=$1 root=$work/$1 example
	stage_common "$package" "$root"
	case $package in
	transom) put_units "$root" transom-journal transom-tune-follow ;;
	transom-agent)
		put_units "$root" transom-agent
		for example in all-namespaces other-spool; do
			put 644 "packaging/systemd/$example.conf" "$root/usr/share/doc/transom-agent/examples/$example.conf"
		done
		put 644 packaging/agent.toml "$root/etc/transom/agent.toml"
		stage_monitoring "$root/usr/share/transom"
		;;
	transom-fleet)
		put_units "$root" transom-fleet-ship transom-fleet-follow transom-fleet-step
		put 644 packaging/fleet/fleet.env "$root/etc/transom/fleet.env"
		stage_fleet "$root/usr/share/transom"
		;;
	transom-drill)
		put_units "$root" transom-drill
		put 644 packaging/drill/drill.json5 "$root/etc/transom/drill.json5"
		put 644 packaging/drill/router.json5 "$root/etc/transom/router.json5"
		;;
	esac
	build_debian "$package" "$arch"
}

build_debian() { # PACKAGE ARCH
	local package=$1 root=$work/$1 file=$dist/${1}_${version}_$2.deb
	stage_debian "$package" "$root" "$2"
	dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$file" >&2
	if command -v lintian >/dev/null; then
		lintian --allow-root --fail-on error,warning "$file" >&2 || fail "lintian complains about $file"
		echo "lintian: $(basename "$file"): clean"
	fi
}

pack_tarball() {
	local name=transom-$version-linux-$arch root=$work/tar/transom-$version-linux-$arch package
	for package in $PROGRAMS; do
		put 755 "$programs/$package" "$root/bin/$package"
	done
	mkdir -p "$root/share"
	cp -r "$manual" "$root/share/transom"
	cp -r packaging/systemd "$root/share/transom/systemd"
	put 644 packaging/agent.toml "$root/share/transom/agent.toml"
	put 644 packaging/fleet/fleet.env "$root/share/transom/fleet.env"
	cp -r packaging/drill "$root/share/transom/drill"
	stage_monitoring "$root/share/transom"
	stage_fleet "$root/share/transom"
	put 644 README.md "$root/README.md"
	cp -r LICENSES "$root/"
	find "$root" -type d -exec chmod 755 {} +
	find "$root" -type f ! -path '*/bin/*' ! -name '*.py' -exec chmod 644 {} +
	tar -C "$work/tar" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--format=ustar -c "$name" | xz -T1 -6 >"$dist/$name.tar.xz"
}

# The commit and the compiler, if the programs are of nothing else: scripts/dist-check.sh builds the
# same once more and compares.
made_of() {
	[ -z "${TRANSOM_PROGRAMS:-}" ] || return 0
	[ -z "$(git status --porcelain 2>&1)" ] || return 0
	echo "$(git rev-parse HEAD), $(rustc -V)"
}

[ $# -gt 0 ] || set -- amd64 arm64
source=$(made_of)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"
[ -n "${TRANSOM_MANUAL:-}" ] || make_manual
for arch; do
	built=${TRANSOM_PROGRAMS:-$(scripts/dist-build.sh "$arch")}
	strip_programs
	check_size "$programs/transom" $MOST_TRANSOM
	check_size "$programs/transom-agent" $MOST_AGENT
	check_size "$programs/transom-fleet" $MOST_FLEET
	check_size "$programs/transom-drill" $MOST_DRILL
	check_libc "$programs/transom-drill"
	for package in $PROGRAMS; do
		pack_debian "$package"
	done
	[ "$arch" != arm64 ] || pack_phone
	pack_tarball
	rm -f "$dist/.made-of-$arch"
	[ -z "$source" ] || [ "$source" != "$(made_of)" ] || echo "$source" >"$dist/.made-of-$arch"
done
(cd "$dist" && sha256sum -- *.deb *.tar.xz >SHA256SUMS && cat SHA256SUMS)
