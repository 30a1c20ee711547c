#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Layout of all C and C++ sources, as .clang-format says.  Other versions of clang-format lay out differently,
# so without version 14 this check is skipped.
set -eu
cd "$(dirname "$0")/../.."
for tool in clang-format-14 clang-format; do
	case $($tool --version 2>/dev/null) in
	*" version 14."*) break ;;
	esac
	tool=
done
if [ -z "$tool" ]; then
	echo "[  SKIPPED ] format: clang-format 14 is not installed"
	exit 77
fi
# Several at once: the one of a process that would change a file says so on standard error.
wrong=$(find core hmem dmabuf xpu include samples tests \( -name '*.[ch]' -o -name '*.[ch]pp' \) -print0 |
	xargs -0 -n 16 -P "$(nproc)" "$tool" --style=file --dry-run 2>&1 |
	sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: .*/\1/p' | sort -u | tr '\n' ' ')
if [ -n "$wrong" ]; then
	echo "$tool -i would change:$wrong"
	echo "[  FAILED  ] format"
	exit 1
fi
# What clang-format does not see: the length of files.
long=$(find core hmem dmabuf xpu include samples \( -name '*.[ch]' -o -name '*.[ch]pp' \) -exec awk '
	FNR == 601 { print FILENAME ": more than 600 lines" }' {} +)
if [ -n "$long" ]; then
	printf '%s\n' "$long"
	echo "[  FAILED  ] format"
	exit 1
fi
echo "[       OK ] format"
