#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs the packages in a root of Debian 12 with nothing else of ours in it, uses them there, purges them, and
# looks for what is left.  Needs root, debootstrap and a Debian mirror, the one that this machine's apt has.  The
# root is kept as FOLDER/base, with what was downloaded, for the next time.
# Usage: tests/package/install.sh [FOLDER]    FOLDER/first has the packages (default: build/package)
# Exit status: 77 it cannot be done here, and why.
set -eu
cd "$(dirname "$0")/../.."
. tests/attempt.sh

folder=$(cd "${1:-build/package}" && pwd)
base=$folder/base root=$folder/root
suite=bookworm
# What a user of the packages has anyway, or has beside them.
tools="bash-completion,cmake,g++,make,man-db,pkg-config"
beside="libfabric-bin libfabric-dev"
names=$(sed -n 's/^Package: //p' debian/control)
start=$(date +%s)

cannot()
{
	echo "[  SKIPPED ] package_install: $*"
	exit 77
}

# The mirror of this machine's apt.
mirror()
{
	apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
		awk -v suite="$suite" '$2 == suite && $3 == "main" && !n++ { sub("/$", "", $1); print $1 }'
}

obstacle()
{
	[ "$(id -u)" -eq 0 ] || { echo "not root" && return; }
	unshare --mount true 2>/dev/null || { echo "no mount namespace can be made here" && return; }
	command -v debootstrap >/dev/null 2>&1 || { echo "no debootstrap" && return; }
	from=$(mirror)
	[ -n "$from" ] || { echo "apt has no source of $suite here" && return; }
	/usr/lib/apt/apt-helper download-file "$from/dists/$suite/Release" "$scratch/Release" >/dev/null 2>&1 ||
		echo "the mirror does not answer"
}

# As this machine's apt, and where names are resolved as here.
network()
{
	cp -L /etc/resolv.conf /etc/hosts "$base/etc/" 2>/dev/null || true
	apt-config dump | grep -E '^Acquire::(http|https|Retries|Check-)' >"$base/etc/apt/apt.conf.d/99host" || true
	if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
		mkdir -p "$base/etc/ssl/certs"
		cp -L /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/"
	fi
}

make_base()
{
	[ "$(cat "$base/complete" 2>/dev/null)" != "$tools" ] || return 0
	rm -rf "$base"
	debootstrap --variant=minbase --include="$tools" "$suite" "$base" "$(mirror)" || return 1
	network
	echo "$tools" >"$base/complete"
}

# in_root COMMAND...: in the root, with what is mounted for the time of the command alone.
in_root()
{
	# shellcheck disable=SC2016
	unshare --mount --propagation private sh -c '
		mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@"' "$root" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

make_root()
{
	rm -rf "$root"
	cp -a --reflink=auto "$base" "$root"
	mkdir -p "$root/packages" "$root/source"
	for name in $names; do
		cp "$folder/first/${name}_"*.deb "$root/packages/" || return 1
	done
	cp -R README.md samples tests/package/inside.sh "$root/source/"
}

# What apt takes for our packages, and what is to get along with them.
dependencies()
{
	in_root apt-get -q update || return 1
	needed=$(in_root sh -c 'apt-get -s install /packages/*.deb' | awk '/^Inst/ { print $2 }' |
		grep -vxF "$names") || return 1
	echo "apt takes for them:" $needed
	# shellcheck disable=SC2086
	in_root apt-get -q -y install $needed $beside || return 1
	# apt fetched them again only if they were not here; they stay for the next time.
	cp -n "$root"/var/cache/apt/archives/*.deb "$base/var/cache/apt/archives/" || true
}

packages()
{
	more=$(in_root sh -c 'apt-get -s install /packages/*.deb' | awk '/^Inst/ { print $2 }' | grep -vxF "$names") || true
	[ -z "$more" ] || { echo "apt wants more, which it did not name before:" $more && return 1; }
	in_root sh -c 'apt-get -q -y install /packages/*.deb'
}

# Every file but the records of dpkg, apt and the loader.
snapshot()
{
	(cd "$root" && find . \( -path ./proc -o -path ./dev -o -path ./packages -o -path ./source -o -path ./tmp -o \
		-path ./root -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log -o \
		-path ./etc/ld.so.cache \) -prune -o \( -type d -printf '%p %m\n' -o -printf '%p %m %s %l\n' \) | LC_ALL=C sort)
}

purge()
{
	# shellcheck disable=SC2086
	in_root apt-get -q -y purge $names || return 1
	! in_root dpkg-query -W -f '${Package} ${Status}\n' | grep hmreg || return 1
	snapshot >"$scratch/after"
	diff "$scratch/before" "$scratch/after" || return 1
	! find "$root"/var "$root"/etc -name '*hmreg*' ! -path '*/archives/*' | grep .
}

reason=$(obstacle)
[ -z "$reason" ] || cannot "$reason"
attempt package_base_root make_base
[ "$failed" -ne 0 ] || attempt package_root make_root
[ "$failed" -ne 0 ] || attempt package_dependencies dependencies
if [ "$failed" -eq 0 ]; then
	snapshot >"$scratch/before"
	attempt package_installs packages
fi
if [ "$failed" -eq 0 ]; then
	for use in $(sed -n 's/^use_\([a-z_]*\)()$/\1/p' tests/package/inside.sh); do
		attempt "package_$use" in_root sh /source/inside.sh "$use"
	done
	attempt package_purges purge
fi
[ "$failed" -ne 0 ] || rm -rf "$root"
echo "installation: $(($(date +%s) - start)) s"
[ "$failed" -eq 0 ]
