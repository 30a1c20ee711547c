#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The commands of doc/guide.md print what the guide says, and what it names and shows is there.
# Usage: guide.sh BUILD-FOLDER ACCELERATORS VERBS     the folders of the emulated drivers
set -u
build=$1 accel=$2 verbs=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
guide=$root/doc/guide.md
. "$root/tests/attempt.sh"
unset FI_HMEM FI_HMEM_DISABLE_P2P FI_LOG_LEVEL FI_LOG_PROV FI_LOG_SUBSYS FI_MR_CACHE_MONITOR HMREG_VERBS_DEVICES \
	HMREG_VERBS_ENABLE HMREG_EMU_VERBS

for library in "$accel/cuda/libcuda.so.1" "$verbs/libibverbs.so.1"; do
	[ -e "$library" ] || {
		echo "[  SKIPPED ] guide: no emulated driver $library"
		exit 77
	}
done

# block LANGUAGE N: the Nth block of this language.
block()
{
	awk -v language="\`\`\`$1" -v n="$2" '$0 == "```" { on = 0 } on { print } $0 == language { on = ++count == n }' "$guide"
}

# The lines of a file, in this order, each within a line of the output.
in_order()
{
	awk 'NR == FNR { want[++count] = $0; next } at < count && index($0, want[at + 1]) { at++ }
		END { if (at < count) print "not there, or out of order: " want[at + 1]; exit at < count || !count }' "$1" "$2"
}

# runs N: the Nth command, and what it prints.
runs()
{
	block sh "$1" >"$scratch/command"
	block text "$1" >"$scratch/want"
	[ -s "$scratch/command" ] && [ -s "$scratch/want" ] || return 1
	build=$build LD_LIBRARY_PATH=$accel/cuda:$verbs sh -e "$scratch/command" >"$scratch/out" 2>"$scratch/err" || {
		cat "$scratch/out" "$scratch/err"
		return 1
	}
	in_order "$scratch/want" "$scratch/out" && return
	cat "$scratch/command" "$scratch/out" "$scratch/err"
	return 1
}

# Each command has its output, and the lines that set a shell up name these folders.
pairs()
{
	[ "$(grep -c '^```sh$' "$guide")" -eq "$(grep -c '^```text$' "$guide")" ] || return 1
	# shellcheck disable=SC2016 # as the guide has it
	grep -qxF '    export LD_LIBRARY_PATH=$build/tests/drivers/accel/cuda:$build/tests/drivers/verbs' "$guide"
}

# A line that is not printed, and lines in another order, are seen.
wrong_output_is_seen()
{
	printf 'a\nb\nc\n' >"$scratch/out"
	printf 'a\nc\n' >"$scratch/good"
	printf 'c\na\n' >"$scratch/swapped"
	printf 'a\nd\n' >"$scratch/missing"
	in_order "$scratch/good" "$scratch/out" && ! in_order "$scratch/swapped" "$scratch/out" &&
		! in_order "$scratch/missing" "$scratch/out"
}

# Links, pictures and files named as code.
names()
{
	wrong=0
	for text in "$guide" "$root/doc/troubleshooting.md"; do
		{
			grep -oE '\]\([A-Za-z0-9_./-]+\)' "$text" | tr -d ']()' | sed "s|^|$root/doc/|"
			grep -ohE '`(core|hmem|dmabuf|xpu|include|samples|tests|man|doc|cmake)/[A-Za-z0-9_./-]*`' "$text" |
				tr -d '`' | sed "s|^|$root/|"
		} >"$scratch/names"
		while read -r name; do
			[ -e "$name" ] || {
				echo "${text##*/} names $name, which is not there"
				wrong=1
			}
		done <"$scratch/names"
	done
	for picture in "$root"/doc/*.svg; do
		grep -q "](${picture##*/})" "$guide" || {
			echo "the guide does not show ${picture##*/}"
			wrong=1
		}
	done
	return $wrong
}

count=$(grep -c '^```sh$' "$guide")
attempt guide_commands_have_outputs pairs
attempt guide_wrong_output_is_seen wrong_output_is_seen
attempt guide_names_what_exists names
n=0
while [ $n -lt "$count" ]; do
	n=$((n + 1))
	attempt "guide_command_$n" runs $n
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$count" -gt 0 ]
