#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every row of the interface's tables (abi/*.tsv) against the public headers, in C and C++ with each
# of gcc and clang that is installed. Then the check itself is tried: with one thing changed in a
# copy of the headers, it has to fail, in each compiler.
# Usage: abi.sh [INCLUDE_FOLDER]    (default: the tree's own include)
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
include=${1:-$here/../../include}
include=$(cd "$include" && pwd) || exit 2
tables=$here/abi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

pass()
{
	passed=$((passed + 1))
	printf 'ok    %s\n' "$1"
}

fail()
{
	failed=$((failed + 1))
	printf 'FAIL  %s\n' "$1"
	[ $# -lt 2 ] || head -n 12 "$2" | sed 's/^/      /'
}

language()
{
	case $1 in
	*++) echo "-x c++ -std=c++11" ;;
	*) echo "-x c -std=c11" ;;
	esac
}

# compile COMPILER INCLUDE SOURCE OBJECT
compile()
{
	# shellcheck disable=SC2046
	"$1" $(language "$1") -Wall -Wextra -Werror -I"$2" -c "$3" -o "$4" 2>"$work/log"
}

# The rows that reach the compiler, by the marks their assertions leave in preprocessed source.
rows_seen()
{
	# shellcheck disable=SC2046
	"$1" $(language "$1") -I"$include" -E "$work/abi.c" | grep -o '"row [a-z]*:[0-9]*' | sort -u
}

check_rows()
{
	if ! compile "$1" "$include" "$work/abi.c" "$work/abi.o"; then
		fail "$1: a row of the tables does not hold" "$work/log"
		return
	fi
	rows_seen "$1" >"$work/seen"
	seen=$(wc -l <"$work/seen")
	if cmp -s "$work/seen" "$work/rows"; then
		pass "$1: $seen of $total rows checked"
	else
		fail "$1: only $seen of $total rows checked"
	fi
	nm -u "$work/abi.o" | awk '$2 ~ /fi_/ { print $2 }' | sort >"$work/undefined"
	if cmp -s "$work/undefined" "$work/exported"; then
		pass "$1: $(wc -l <"$work/exported") calls need the library, all others are inline"
	else
		diff "$work/exported" "$work/undefined" >"$work/log"
		fail "$1: calls that need the library (<: expected, >: found)" "$work/log"
	fi
}

# The program that makes each inline call, against these headers: built, run and content?
calls_hold()
{
	# shellcheck disable=SC2046
	"$1" $(language "$1") -Wall -Wextra -Werror -I"$2" -I"$here" "$work/calls.c" \
		-o "$work/calls" 2>"$work/log" || return 2
	"$work/calls" >"$work/log" 2>&1
}

# The calls that go through an operation table must pass every argument to the right slot.
check_calls()
{
	calls_hold "$1" "$include"
	case $? in
	0) pass "$1: $(cat "$work/log")" ;;
	*) fail "$1: an inline call does not do what the table says" "$work/log" ;;
	esac
}

# change NAME FILE SED_SCRIPT: a copy of the headers with this change, which still compiles alone.
change()
{
	rm -rf "$work/changed"
	mkdir -p "$work/changed"
	cp -R "$include/rdma" "$work/changed/rdma"
	sed "$3" "$include/rdma/$2" >"$work/changed/rdma/$2"
	if cmp -s "$include/rdma/$2" "$work/changed/rdma/$2"; then
		fail "self-test: '$1' did not change $2"
		return 1
	fi
	printf '#include <rdma/%s>\n' "$2" >"$work/alone.c"
	for cc in $compilers; do
		compile "$cc" "$work/changed" "$work/alone.c" "$work/abi.o" && continue
		fail "self-test: '$1' is no valid header for $cc" "$work/log"
		return 1
	done
}

# verdict NAME MISSED: were there compilers in which the change went by?
verdict()
{
	if [ -n "$2" ]; then
		fail "self-test: not noticed by$2: $1"
	else
		pass "self-test: noticed: $1"
	fi
}

# With this change the assertions must fail ...
bad_row()
{
	change "$@" || return
	missed=
	for cc in $compilers; do
		! compile "$cc" "$work/changed" "$work/abi.c" "$work/abi.o" || missed="$missed $cc"
	done
	verdict "$1" "$missed"
}

# ... and with this one the program that makes the calls.
bad_call()
{
	change "$@" || return
	missed=
	for cc in $compilers; do
		calls_hold "$cc" "$work/changed"
		case $? in
		0) missed="$missed $cc" ;;
		2) missed="$missed $cc(does not compile)" ;;
		esac
	done
	verdict "$1" "$missed"
}

self_test()
{
	bad_row "a struct field is narrower" fi_domain.h 's/size_t sub_mr_cnt;/uint32_t sub_mr_cnt;/'
	bad_row "a struct field has another type of the same size" fabric.h \
		's/int mr_mode;/unsigned int mr_mode;/'
	bad_row "two struct fields change places" fi_eq.h '/^struct fi_cq_err_entry/,/^}/{
		s/int err;/int swap;/
		s/int prov_errno;/int err;/
		s/int swap;/int prov_errno;/
	}'
	bad_row "a struct has one field more" fabric.h 's/size_t max_xpu_ctx_cnt;/& int more;/'
	bad_row "a flag has another bit" fi_const.h 's/\(FI_HMEM[ 	]*\)(1ULL << 47)/\1(1ULL << 46)/'
	bad_row "a constant has another size" fi_tagged.h 's/0xFFFFFFFFULL/0xFFFFFFFFU/'
	bad_row "an enumerator slips in" fi_domain.h 's/FI_FLOAT16,/FI_FLOAT24, FI_FLOAT16,/'
	bad_row "a constant is gone" fi_errno.h '/FI_ENOMR/d'
	bad_row "a slot takes another type" fi_rma.h \
		's/\((\*readmsg)(.*\)uint64_t flags/\1uint32_t flags/'
	bad_row "an exported call takes another type" fi_errno.h 's/fi_strerror(int /fi_strerror(long /'
	bad_row "an inline call returns another type" fi_domain.h \
		's/inline uint64_t fi_mr_key/inline int64_t fi_mr_key/'
	bad_row "a call is gone" fi_xpu_device.h 's/fi_xpu_cq_sread(/fi_xpu_cq_sreed(/'
	bad_call "two arguments change places" fi_rma.h 's/addr, key, context);/key, addr, context);/'
	bad_call "a call goes to another slot" fi_eq.h 's/cntr->ops->add(/cntr->ops->set(/'
	bad_call "a missing slot is called" fi_domain.h 's/!FI_CHECK_OP(/0 \&\& &/'
}

for table in layout enums constants functions; do
	printf '%-10s%5d rows\n' "$table" "$(grep -vc '^#' "$tables/$table.tsv")"
	grep -n -v '^#' "$tables/$table.tsv" | sed "s/^\([0-9]*\):.*/\"row $table:\1/" >>"$work/marks"
done
sort -u "$work/marks" >"$work/rows"
total=$(wc -l <"$work/rows")
printf '%-10s%5d rows\n' "in all" "$total"

awk -F '\t' '$2 == "exported" { print $4 }' "$tables/functions.tsv" | sort >"$work/exported"
sh "$here/gen_abi.sh" "$tables" >"$work/abi.c" || exit 2
sh "$here/gen_calls.sh" "$tables" >"$work/calls.c" || exit 2

compilers=
for cc in gcc clang g++ clang++; do
	if command -v "$cc" >/dev/null 2>&1; then
		compilers="$compilers $cc"
	else
		printf '%s is not installed: left out\n' "$cc"
	fi
done
if [ -z "$compilers" ] || [ "$total" -eq 0 ]; then
	fail "no compiler, or no tables"
fi
for cc in $compilers; do
	check_rows "$cc"
	check_calls "$cc"
done
[ "$failed" -ne 0 ] || self_test

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
