#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The table of dependencies in README.md is that of debian/control, tests/packages.sh, the sources and the built
# files, no more and no less.
# Usage: dependencies.sh BUILT-FILES...
set -eu
cd "$(dirname "$0")/../.."
. tests/packages.sh
. tests/attempt.sh
LC_ALL=C
export LC_ALL

# package TAB version TAB how TAB files, of each row
awk -F ' *[|] *' '/^## / { on = /Dependencies/ } on && NF > 7 && $2 !~ /^(package|-+)$/ {
	gsub("`", "", $6); print $2 "\t" $3 "\t" $5 "\t" $6 }' README.md >"$scratch/table"

# rows HOW...: the packages of these kinds.
rows()
{
	awk -F '\t' -v wanted="$*" 'BEGIN { n = split(wanted, w, ","); for (i = 1; i <= n; i++) is[w[i]] = 1 }
		is[$3] && $1 !~ /^\(/ { print $1 }' "$scratch/table" | sort
}

# files HOW: what rows of this kind name in the column of files.
files()
{
	awk -F '\t' -v how="$1" '$3 == how { gsub(", ", "\n", $4); print $4 }' "$scratch/table" | sort
}

# field NAMES: the packages in these fields of debian/control, without versions and substitutions.
field()
{
	awk -v names="$1" '/^[^ ]/ { on = $1 ~ "^(" names "):$"; sub(/^[^:]*:/, "") } on' debian/control | tr ',' '\n' |
		sed 's/(.*//; s/:any//; s/[[:space:]]//g; /^$/d; /^\$/d; s/^debhelper-compat$/debhelper/' |
		sed 's/^dh-sequence-python3$/dh-python/' | sort -u
}

# differs FIRST SECOND
same()
{
	[ -s "$1" ] && diff "$1" "$2"
}

# Whatever either of the two lists asks for stands in the table, and the table has nothing else.
packages()
{
	{
		hm_package_list | awk '{ print $2 }'
		[ "$(uname -m)" = x86_64 ] || echo libze-dev
		field 'Build-Depends|Depends|Recommends|Suggests' | grep -v hmreg
		echo libc6
	} | sort -u >"$scratch/asked"
	cut -f 1 "$scratch/table" | grep -v '^(' | sort >"$scratch/listed"
	same "$scratch/asked" "$scratch/listed"
}

# What is loaded is recommended or suggested by the library's package, and nothing that is loaded is needed.
loaded_packages()
{
	rows dlopen >"$scratch/listed"
	field 'Recommends|Suggests' | grep -vxE 'hmreg-tools|pkg-config|bash-completion' >"$scratch/asked"
	same "$scratch/asked" "$scratch/listed" || return 1
	field Depends | grep -v hmreg >"$scratch/needed" || true
	! grep -xFf "$scratch/listed" "$scratch/needed"
}

# Debian's build has no more than the library's.
build_packages()
{
	field Build-Depends >"$scratch/debian"
	rows build,packages,"runs us" >"$scratch/listed"
	! comm -23 "$scratch/debian" "$scratch/listed" | grep .
}

# Names that the library's sources give to dlopen; libc.so.6 is looked at, for its own dlopen, and is there.
loaded_files()
{
	grep -rhoE '"lib[A-Za-z0-9_+-]*\.so[.0-9]*"' core hmem dmabuf xpu --include='*.[ch]' | tr -d '"' | sort -u |
		grep -vxE 'libc\.so\.6|libfabric\.so\.1|libhmreg\.so\.1' >"$scratch/asked"
	files dlopen >"$scratch/listed"
	same "$scratch/asked" "$scratch/listed"
}

linked_files()
{
	for file in "$@"; do
		readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
	done | grep -vx 'libhmreg.so.1' | sed 's/^ld-linux-.*/ld-linux-x86-64.so.2/' | sort -u >"$scratch/asked"
	files linked >"$scratch/listed"
	! comm -23 "$scratch/asked" "$scratch/listed" | grep . && grep -qx libc.so.6 "$scratch/asked"
}

# Versions of what is installed here, as far as the table gives them.
versions()
{
	compared=0
	while IFS='	' read -r package version _; do
		case $version in [0-9]*) ;; *) continue ;; esac
		# shellcheck disable=SC2016
		here=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$package" 2>/dev/null |
			sed -n 's/^installed \([0-9]*:\)\{0,1\}//p' | head -n 1)
		[ -n "$here" ] || continue
		case $here in
		"$version" | "$version"[!0-9]*) compared=$((compared + 1)) ;;
		*) echo "$package: README.md has $version, installed is $here" && return 1 ;;
		esac
	done <"$scratch/table"
	echo "$compared compared"
	[ "$compared" -gt 5 ]
}

attempt dependencies_packages packages
attempt dependencies_loaded_packages loaded_packages
attempt dependencies_build_packages build_packages
attempt dependencies_loaded_files loaded_files
attempt dependencies_linked_files linked_files "$@"
if grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then
	attempt dependencies_versions versions
else
	echo "[  SKIPPED ] dependencies_versions: this is not Debian 12"
fi
[ "$failed" -eq 0 ]
