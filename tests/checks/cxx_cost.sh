#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What hmreg.hpp costs over the C calls: nothing.  The same functions, written with each, are compiled with
# optimisation, and the instructions have to be the same (a compiler may order them in its own way); a third that does more has to be told apart.
# Usage: cxx_cost.sh [COMPILER...]    (default: g++ and clang++, where they are)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/attempt.sh"
[ $# -gt 0 ] || set -- g++ clang++

cat >"$scratch/c.cpp" <<'END'
#include <rdma/fi_rma.h>
struct remote {
	uint64_t address, key;
};
#define PUBLIC __attribute__((visibility("default")))
PUBLIC uint64_t key_of(fid_mr *const &mr)
{
	return fi_mr_key(mr);
}
PUBLIC void *desc_of(fid_mr *const &mr)
{
	return fi_mr_desc(mr);
}
PUBLIC int write_to(fid_ep *&ep, const char *from, size_t size, fid_mr *const &mr, fi_addr_t peer, const remote &to)
{
	ssize_t ret = fi_write(ep, from, size, fi_mr_desc(mr), peer, to.address, to.key, NULL);

	return ret < 0 ? (int)-ret : 0;
}
PUBLIC void give(fid_mr *&from, fid_mr **to)
{
	fid_mr *mr = from;
	from = nullptr;
	*to = mr;
}
END
cat >"$scratch/cxx.cpp" <<'END'
#include <hmreg/hmreg.hpp>
#define PUBLIC __attribute__((visibility("default")))
PUBLIC uint64_t key_of(const hmreg::region &region)
{
	return region.key();
}
PUBLIC void *desc_of(const hmreg::region &region)
{
	return region.desc();
}
PUBLIC int write_to(hmreg::endpoint &endpoint, const char *from, size_t size, const hmreg::region &region,
	      fi_addr_t peer, const hmreg::remote &to)
{
	return endpoint.try_write(hmreg::bytes(from, size), region.desc(), peer, to).error().code;
}
PUBLIC void give(hmreg::region &from, void *to)
{
	new (to) hmreg::region(std::move(from));
}
END
sed 's/return region.key()/return region.key() + 1/' "$scratch/cxx.cpp" >"$scratch/more.cpp"

# code COMPILER NAME: the instructions of each function.
code()
{
	"$1" -std=c++17 -O2 -DNDEBUG -fno-exceptions -I"$root/include" -c -o "$scratch/$2.o" "$scratch/$2.cpp" &&
		objdump -d --no-show-raw-insn "$scratch/$2.o" |
		awk '/>:$/ { name = $2; gsub(/[<>:]/, "", name); match(name, /(key_of|desc_of|write_to|give)/)
			name = substr(name, RSTART, RLENGTH); next }
		/^ / { sub(/^ *[0-9a-f]*:\t/, ""); sub(/<.*/, ""); sub(/[ \t]+$/, ""); if ($0 !~ /^(nop|cs nop|data16|xchg +%ax,%ax)/) print name ": " $0 }' | sort \
			>"$scratch/$2.txt" && [ "$(wc -l <"$scratch/$2.txt")" -gt 8 ]
}

same()
{
	code "$1" c && code "$1" cxx && diff "$scratch/c.txt" "$scratch/cxx.txt"
}

differs()
{
	code "$1" more && ! diff "$scratch/c.txt" "$scratch/more.txt"
}

if ! command -v objdump >/dev/null 2>&1; then
	echo "[  SKIPPED ] cxx_costs_nothing: no objdump"
	exit 77
fi
for cxx in "$@"; do
	if ! command -v "$cxx" >/dev/null 2>&1; then
		echo "$cxx is not installed: left out"
		continue
	fi
	attempt "cxx_costs_nothing[$cxx]" same "$cxx"
	attempt "cxx_cost_would_be_seen[$cxx]" differs "$cxx"
done
[ "$failed" -eq 0 ]
