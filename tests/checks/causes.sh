#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The causes in hmreg-check(1) are those of the tool, word for word.
# Usage: causes.sh HMREG-CHECK PAGE [--write]    --write: put them into the page
set -eu
tool=$1 page=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$tool" --list | LC_ALL=C sort -n | awk -F '\t' '
	function put(text) {
		gsub(/\.  +/, ".\n", text)
		gsub(/\\/, "\\e", text)
		print text
	}
	{ print ".It Ic " $2 " Pq " $1 ", " $3; put($4); put($5) }' >"$scratch/want"

if [ "${3:-}" = --write ]; then
	awk -v rows="$scratch/want" '
		/^\.\\" end of causes/ { inside = 0 }
		!inside { print }
		/^\.\\" causes of --list/ { inside = 1; while ((getline line < rows) > 0) print line }' \
		"$page" >"$scratch/page"
	cat "$scratch/page" >"$page"
fi
awk '/^\.\\" end of causes/ { exit } inside { print } /^\.\\" causes of --list/ { inside = 1 }' \
	"$page" >"$scratch/have"
if [ -s "$scratch/want" ] && diff "$scratch/want" "$scratch/have"; then
	echo "[       OK ] causes_in_manual"
else
	echo "[  FAILED  ] causes_in_manual: tests/checks/causes.sh TOOL PAGE --write puts them there"
	exit 1
fi
