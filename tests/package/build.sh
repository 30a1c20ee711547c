#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes the Debian source package and the packages of it, twice: here, and from the source package in a folder of
# another name, at another time, with another umask, locale, time zone and number of jobs.  Both have to be the same
# byte by byte, and lintian has to find nothing in them.  Needs no root.
# Usage: tests/package/build.sh [FOLDER]    leaves the packages in FOLDER/first (default: build/package)
set -eu
cd "$(dirname "$0")/../.."
. tests/packages.sh
. tests/attempt.sh

# Compilers that a cache stands before would compare its files with themselves.
PATH=$(printf %s "$PATH" | tr : '\n' | grep -v ccache | paste -s -d :)
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS CFLAGS CPPFLAGS \
	CXXFLAGS LDFLAGS
mkdir -p "${1:-build/package}"
folder=$(cd "${1:-build/package}" && pwd)
name=$(dpkg-parsechangelog -S Source)
version=$(dpkg-parsechangelog -S Version)
upstream=${version%-*}

# What belongs to the tree: as git knows it, with what is not committed yet, or where there is no git everything
# but what was built.
tree()
{
	if git rev-parse --show-toplevel >/dev/null 2>&1; then
		git ls-files -co --exclude-standard
	else
		find . \( -path ./build -o -path ./.git \) -prune -o \( -type f -o -type l \) -printf '%P\n'
	fi | while IFS= read -r file; do
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done | LC_ALL=C sort
}

# The sources without debian/, the same bytes for the same tree.
original()
{
	when=@$(dpkg-parsechangelog -S Timestamp)
	tree | grep -vE '^(debian|\.ci)/|^\.gitignore$' |
		tar -c -T - --transform "s,^,$name-$upstream/," --mtime "$when" --owner 0 --group 0 --numeric-owner \
			--mode 'u=rwX,go=rX' | xz -T 1 -6 >"$folder/first/${name}_$upstream.orig.tar.xz"
}

first()
{
	rm -rf "$folder/first" "$folder/second"
	mkdir -p "$folder/first" && original || return 1
	tar -C "$folder/first" -xf "$folder/first/${name}_$upstream.orig.tar.xz" &&
		cp -R debian "$folder/first/$name-$upstream/" || return 1
	(
		umask 022
		cd "$folder/first/$name-$upstream" || exit 1
		LC_ALL=C TZ=UTC DEB_BUILD_OPTIONS=parallel=$(hm_jobs) dpkg-buildpackage -us -uc --no-check-builddeps
	)
}

second()
{
	(
		umask 027
		mkdir -p "$folder/second" && cd "$folder/second" || exit 1
		dpkg-source -x "$folder/first/${name}_$version.dsc" a-longer-name && cd a-longer-name || exit 1
		LC_ALL=C.UTF-8 LANGUAGE=de TZ=Pacific/Kiritimati HOME=/nonexistent USER=somebody \
			DEB_BUILD_OPTIONS=parallel=$(($(hm_jobs) + 1)) dpkg-buildpackage -us -uc -b --no-check-builddeps
	)
}

# A name for each package that is meant to be there, and the bytes of both.
same()
{
	made=$(cd "$folder/first" && echo ./*.deb)
	echo "$made"
	for package in $(sed -n 's/^Package: //p' debian/control); do
		ls "$folder/first/${package}_$version"_*.deb || return 1
	done
	[ "$made" = "$(cd "$folder/second" && echo ./*.deb)" ] || return 1
	for file in $made; do
		cmp "$folder/first/$file" "$folder/second/$file" || return 1
	done
}

clean()
{
	root=
	[ "$(id -u)" -ne 0 ] || root=--allow-root
	lintian $root --fail-on error,warning --suppress-tags '' "$folder/first/${name}_$version"_*.changes
}

start=$(date +%s)
attempt package_builds first
if [ "$failed" -eq 0 ]; then
	attempt package_lintian clean
	attempt package_builds_from_source_package second
	[ "$failed" -ne 0 ] || attempt package_reproducible same
fi
echo "packages: $(($(date +%s) - start)) s"
[ "$failed" -eq 0 ]
