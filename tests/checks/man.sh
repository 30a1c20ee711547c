#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages are well formed.
# Usage: man.sh PAGES...
set -eu
if [ $# -eq 0 ] || ! command -v mandoc >/dev/null 2>&1; then
	echo "[  SKIPPED ] man_pages: no page, or no mandoc"
	exit 77
fi
# mandoc -T lint also names pages that it cannot find on this machine: that is no fault of ours.
complaints=$(mandoc -T lint -W warning "$@" 2>&1 | grep -vE 'referenced manual not found' || true)
if [ -n "$complaints" ]; then
	printf '%s\n' "$complaints"
	echo "[  FAILED  ] man_pages"
	exit 1
fi
echo "[       OK ] man_pages"
