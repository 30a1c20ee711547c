#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The static tracepoints: each is in the library's notes, with five arguments, and one nop in its code.
# Usage: trace.sh LIBRARY C-COMPILER
set -u
LC_ALL=C
export LC_ALL
library=$1 cc=$2
names="evict hit invalidate miss register register_done"
. "$(dirname "$0")/verdict.sh"

if ! echo '#include <sys/sdt.h>' | "$cc" -x c -E - >/dev/null 2>&1; then
	echo "[  SKIPPED ] trace_points_are_there: no sys/sdt.h (Debian: systemtap-sdt-dev)"
	exit 77
fi
if ! command -v readelf >/dev/null 2>&1 || ! command -v objdump >/dev/null 2>&1; then
	echo "[  SKIPPED ] trace_points_are_there: no readelf or objdump (Debian: binutils)"
	exit 77
fi

# "name location arguments" of each place.
places=$(readelf -n "$library" 2>/dev/null | awk '
	/Provider:/ { provider = $2 }
	/Name:/ { name = $2 }
	/Location:/ { sub(/,/, "", $2); location = $2 }
	/Arguments:/ { if (provider == "hmreg") print name, location, NF - 1 }')

all_are_there()
{
	found=$(printf '%s\n' "$places" | awk '{ print $1 }' | sort -u | tr '\n' ' ')
	[ "$found" = "$names " ] && return
	echo "the library has: $found"
	return 1
}

five_arguments()
{
	[ -n "$places" ] || return 1
	bad=$(printf '%s\n' "$places" | awk '$3 != 5')
	[ -z "$bad" ] && return
	printf 'not five arguments: %s\n' "$bad"
	return 1
}

# Nobody traces it: it is this one instruction.
each_is_a_nop()
{
	printf '%s\n' "$places" | while read -r name location _; do
		stop=$(printf '0x%x' $((location + 1)))
		code=$(objdump -d --start-address="$location" --stop-address="$stop" "$library" |
			awk '$1 ~ /^[0-9a-f]+:$/ { print $NF }')
		[ "$code" = nop ] && continue
		echo "$name at $location is \"$code\""
		return 1
	done
}

all_are_there
verdict trace_points_are_there $?
five_arguments
verdict trace_points_have_five_arguments $?
each_is_a_nop
verdict trace_points_are_one_nop $?
exit $status
