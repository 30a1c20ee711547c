#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What the shared library shows to the outside: exactly the functions of libhmreg.map under their
# versions, the versions in one chain, no executable stack, no text relocations, all it needs found.
# Usage: strings.sh LIBRARY
set -eu
library=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$(dirname "$0")/verdict.sh"

# The versions, written down here once more, so that a slip in the map does not go unseen.
symbol_versions()
{
	cat >"$scratch/want" <<-END
	fi_dupinfo@@FABRIC_1.10
	fi_fabric2@@FABRIC_1.8
	fi_fabric@@FABRIC_1.1
	fi_freeinfo@@FABRIC_1.10
	fi_freeparams@@FABRIC_1.0
	fi_getinfo@@FABRIC_1.10
	fi_getparams@@FABRIC_1.0
	fi_log@@FABRIC_1.0
	fi_log_enabled@@FABRIC_1.0
	fi_log_ready@@FABRIC_1.6
	fi_open@@FABRIC_1.5
	fi_param_define@@FABRIC_1.0
	fi_param_get@@FABRIC_1.0
	fi_strerror@@FABRIC_1.0
	fi_tostr@@FABRIC_1.0
	fi_tostr_r@@FABRIC_1.4
	fi_version@@FABRIC_1.0
	END
	nm -D --defined-only --with-symbol-versions "$library" |
		awk '$2 != "A" { print $3 }' >"$scratch/have"
	LC_ALL=C sort -o "$scratch/want" "$scratch/want"
	LC_ALL=C sort -o "$scratch/have" "$scratch/have"
	diff -u "$scratch/want" "$scratch/have"
}

# Every name in the map is defined, and the map names no other.
map_is_complete()
{
	awk '/^\t\t[a-z_0-9]+;/ { sub(/;/, ""); print $1 }' "$root/libhmreg.map" |
		LC_ALL=C sort >"$scratch/map"
	sed 's/@.*//' "$scratch/have" | LC_ALL=C sort | diff -u "$scratch/map" -
}

# FABRIC_1.0 to FABRIC_1.10, each the successor of the one before.
version_chain()
{
	want=
	for minor in 0 1 2 3 4 5 6 7 8 9 10; do
		want="$want FABRIC_1.$minor"
		[ $minor -eq 0 ] || want="$want<FABRIC_1.$((minor - 1))"
	done
	have=$(readelf -VW "$library" | awk '
		/Version definition section/ { on = 1 }
		/Version needs section/ { on = 0 }
		on && /Name: FABRIC/ { printf " %s", $NF }
		on && /Parent/ { printf "<%s", $NF }')
	[ "$have" = "$want" ] || {
		echo "versions are:$have"
		return 1
	}
}

# The library's own name is what programs look for at run time.
soname()
{
	readelf -dW "$library" | grep -q 'SONAME.*\[libhmreg\.so\.1\]'
}

hardened()
{
	stack=$(readelf -lW "$library" | awk '/GNU_STACK/ { print $(NF - 1) }')
	[ "$stack" = RW ] || {
		echo "the stack's rights are \"$stack\""
		return 1
	}
	! readelf -dW "$library" | grep TEXTREL || return 1
	readelf -dW "$library" | grep -q BIND_NOW
}

# Nothing missing, and nothing beyond the C library and what the compiler adds.
needs()
{
	ldd "$library" >"$scratch/ldd"
	! grep 'not found' "$scratch/ldd" || return 1
	! awk '{ print $1 }' "$scratch/ldd" |
		grep -vE '^(linux-vdso|libc|libm|libpthread|libdl|libgcc_s|.*/ld-linux-[^/]*|lib[a-z]*san)\.so'
}

run()
{
	if "$1"; then verdict "$2" 0; else verdict "$2" 1; fi
}

run symbol_versions api_01_symbol_versions
run map_is_complete exported_is_what_the_map_says
run version_chain api_01_version_chain
run soname soname
run hardened hardened
run needs needs_only_the_c_library
exit $status
