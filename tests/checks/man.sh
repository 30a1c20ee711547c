#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages are well formed, and every tool, every exported function and every call of the public headers is
# named by one.
# Usage: man.sh PAGES...
set -eu
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ] || ! command -v mandoc >/dev/null 2>&1; then
	echo "[  SKIPPED ] man_pages: no page, or no mandoc"
	exit 77
fi
. tests/attempt.sh

# mandoc -T lint also names pages that it cannot find on this machine: that is no fault of ours.
well_formed()
{
	! mandoc -T lint -W warning "$@" 2>&1 | grep -vE 'referenced manual not found'
}

# The names that pages give, of which links are made.
names()
{
	sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([^ ]*\).*/\1/p' "$@" | LC_ALL=C sort
}

# missing WORDS: says which of the words on its input no page of these names.
missing()
{
	LC_ALL=C sort -u >"$scratch/wanted"
	names "$@" >"$scratch/names"
	[ -s "$scratch/wanted" ] || { echo "found nothing to look for" && return 1; }
	! LC_ALL=C comm -23 "$scratch/wanted" "$scratch/names" | grep .
}

exported()
{
	grep -oE '\<fi_[a-z0-9_]+\>' libhmreg.map | missing "$@"
}

# Functions of the headers, whether inline or declared, but not pointers to such within structures.
calls()
{
	sed -n 's/^[a-z][a-z0-9_ ]*[ *]\(fi_[a-z0-9_]*\)(.*/\1/p' include/rdma/*.h | missing "$@"
}

tools()
{
	sed -n 's/^install(TARGETS \(.*\) DESTINATION.*/\1/p' samples/tools/CMakeLists.txt | tr ' ' '\n' | missing "$@"
}

once()
{
	! names "$@" | uniq -d | grep .
}

attempt man_pages well_formed "$@"
attempt man_tools tools "$@"
attempt man_exported_functions exported "$@"
attempt man_calls_of_headers calls "$@"
attempt man_names_once once "$@"
[ "$failed" -eq 0 ]
