#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The binary interface against that of the last release, or of the branch's start (tests/checks/stable/*.abi), by
# abidiff: exported symbols with their versions and the soname, and every structure, enumeration and function of the
# public headers.  Then the check itself is tried: with one thing changed it has to fail.
# Usage: stable.sh LIBRARY COMPILER [--update]
#   --update  write the baseline anew; doc/stability.md says what may change in it
# Exit status 77: abidiff, or the processor that the baseline is of, is not there.
set -u
LC_ALL=C
export LC_ALL
library=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
baseline=$here/stable
. "$here/../attempt.sh"

command -v abidiff >/dev/null 2>&1 || {
	echo "no abidiff here (Debian's package abigail-tools): skipped"
	exit 77
}
[ "$(uname -m)" = x86_64 ] || {
	echo "the baseline is of x86_64, this is $(uname -m): skipped"
	exit 77
}

# tags KIND HEADERS...: the names that are declared with this word at the beginning of a line.
tags()
{
	kind=$1
	shift
	sed -n "s/^\(typedef \)\{0,1\}$kind \([a-z_0-9]*\) {.*/\2/p" "$@" | sort -u
}

# carrier INCLUDE: a program text in which every type and function of the headers has a variable.
carrier()
{
	for header in "$1"/rdma/*.h; do
		case $header in
		*/fi_xpu_device*) ;; # for devices; what they share with the host is included by name
		*) echo "#include <rdma/${header##*/}>" ;;
		esac
	done
	echo "#include <rdma/fi_xpu_device_hmreg.h>"
	for kind in struct union enum; do
		tags $kind "$1"/rdma/*.h | while read -r tag; do
			echo "$kind $tag *abi_${kind}_$tag;"
		done
	done
	sed -n 's/^\t\t\([a-z_0-9]*\);$/\1/p' "$here/../../libhmreg.map" | sort -u | while read -r call; do
		echo "__typeof__($call) *abi_call_$call;"
	done
}

# types INCLUDE OUT: the interface of these headers, as abidw writes it.
types()
{
	carrier "$1" >"$scratch/carrier.c"
	"$cc" -std=c11 -D_GNU_SOURCE -g -O0 -fPIC -shared -I"$1" "$scratch/carrier.c" -o "$scratch/carrier.so" &&
		abidw --no-show-locs --no-corpus-path --no-comp-dir-path --no-parameter-names --no-write-default-sizes \
			--type-id-style hash "$scratch/carrier.so" >"$2"
}

# symbols LIBRARY OUT
symbols()
{
	cp "$1" "$scratch/stripped.so" && strip --strip-debug "$scratch/stripped.so" &&
		abidw --no-corpus-path --no-comp-dir-path --no-elf-needed "$scratch/stripped.so" >"$2"
}

# same OLD NEW: abidiff says nothing.
same()
{
	abidiff --no-default-suppression "$1" "$2" >"$scratch/diff" 2>&1
	status=$?
	[ $status -eq 0 ] && return 0
	echo "abidiff's exit status is $status; where the change is meant, see doc/stability.md"
	head -n 40 "$scratch/diff"
	return 1
}

stable_symbols()
{
	symbols "$library" "$scratch/symbols.abi" && same "$baseline/symbols.abi" "$scratch/symbols.abi"
}

stable_types()
{
	types "$include" "$scratch/types.abi" && same "$baseline/types.abi" "$scratch/types.abi"
}

# changed SCRIPT HEADER: types of headers with one of them changed by sed.
changed()
{
	rm -rf "$scratch/include" && cp -r "$include" "$scratch/include" &&
		sed -i "$1" "$scratch/include/rdma/$2" &&
		! cmp -s "$include/rdma/$2" "$scratch/include/rdma/$2" && types "$scratch/include" "$scratch/changed.abi"
}

# noticed SCRIPT HEADER: the change is told.
noticed()
{
	changed "$1" "$2" || {
		echo "the change \"$1\" of $2 was not made, or does not compile"
		return 1
	}
	! same "$baseline/types.abi" "$scratch/changed.abi" >/dev/null
}

notices_a_wider_field()
{
	noticed '/^struct hmreg_nic_choice {/,/^}/s/uint32_t bridges;/uint64_t bridges;/' fi_ext_hmreg_topology.h
}

notices_a_field_between()
{
	noticed '/^struct fi_mr_attr {/,/^}/s/^\(\tsize_t[ \t]*iov_count;\)/\tint between;\n\1/' fi_domain.h
}

notices_another_number()
{
	noticed 's/HMREG_DISTANCE_SWITCH,/HMREG_DISTANCE_SWITCH = 7,/' fi_ext_hmreg_topology.h
}

notices_another_signature()
{
	noticed 's/^int fi_fabric(struct fi_fabric_attr \*attr,/long fi_fabric(struct fi_fabric_attr *attr,/' fabric.h
}

# with_library SONAME DROP: one that has the map's symbols but those that match DROP.
with_library()
{
	sed -n 's/^\t\t\([a-z_0-9]*\);$/void \1(void); void \1(void) {}/p' "$here/../../libhmreg.map" |
		grep -v -w "$2" >"$scratch/small.c"
	"$cc" -shared -fPIC -Wl,-soname,"$1" -Wl,--version-script="$here/../../libhmreg.map" \
		-Wl,--undefined-version "$scratch/small.c" -o "$scratch/small.so" 2>"$scratch/ld" ||
		"$cc" -shared -fPIC -Wl,-soname,"$1" -Wl,--version-script="$here/../../libhmreg.map" \
			"$scratch/small.c" -o "$scratch/small.so" || return 1
	symbols "$scratch/small.so" "$scratch/small.abi"
}

notices_a_missing_symbol()
{
	with_library libhmreg.so.1 fi_getparams && ! same "$baseline/symbols.abi" "$scratch/small.abi" >/dev/null &&
		grep -q 'fi_getparams@@FABRIC_1.0' "$scratch/diff"
}

notices_another_soname()
{
	with_library libhmreg.so.2 none && ! same "$baseline/symbols.abi" "$scratch/small.abi" >/dev/null &&
		grep -q 'SONAME changed' "$scratch/diff"
}

if [ "${3:-}" = --update ]; then
	types "$include" "$baseline/types.abi" && symbols "$library" "$baseline/symbols.abi" && wc -c "$baseline"/*.abi
	exit
fi
attempt stable_symbols stable_symbols
attempt stable_types stable_types
for change in a_wider_field a_field_between another_number another_signature a_missing_symbol another_soname; do
	attempt "stable_notices_$change" "notices_$change"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
