#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# doc/troubleshooting.md is what the table of hmreg-check says, every cause of the tool is in it, and what it offers
# to try ends with the exit status that it names.
# Usage: troubleshooting.sh HMREG-CHECK [ACCELERATORS VERBS]   the folders of the emulated drivers
#        troubleshooting.sh --write                            write the guide
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
guide=$root/doc/troubleshooting.md
make=$root/doc/make_troubleshooting.py
if ! command -v python3 >/dev/null 2>&1; then
	echo "[  SKIPPED ] troubleshooting: no python3"
	exit 77
fi
if [ "${1:-}" = --write ]; then
	text=$(PYTHONDONTWRITEBYTECODE=1 python3 "$make" "$root") || exit 1
	printf '%s\n' "$text" >"$guide"
	exit 0
fi
tool=$1 accel=${2:-} verbs=${3:-}
. "$root/tests/attempt.sh"
unset FI_LOG_LEVEL FI_HMEM FI_HMEM_DISABLE_P2P HMREG_VERBS_DEVICES HMREG_VERBS_ENABLE HMREG_EMU_VERBS

up_to_date()
{
	"$tool" --list >"$scratch/list" &&
		python3 -B "$make" "$root" --list "$scratch/list" >"$scratch/guide" || return 1
	diff "$guide" "$scratch/guide" || {
		echo "tests/checks/troubleshooting.sh --write writes it anew"
		return 1
	}
}

# Each cause has a title, a remedy and an exit status of its own.
complete()
{
	"$tool" --list | awk -F '\t' '{ print $2, $1 }' | LC_ALL=C sort >"$scratch/want"
	awk '/^### / { name = $2 } /^- \*\*Remedy:\*\* ./ { remedy = name }
		/^- \*\*Exit status:\*\* / && remedy == name { print name, $NF }' "$guide" | LC_ALL=C sort >"$scratch/have"
	[ -s "$scratch/want" ] && diff "$scratch/want" "$scratch/have"
}

# The scripts of a table that changed: a remedy that is another, and a cause that is missing, are seen.
changes_are_seen()
{
	mkdir -p "$scratch/tree/samples/tools" "$scratch/tree/include" "$scratch/tree/tests/conformance"
	cp -r "$root/include/rdma" "$scratch/tree/include/"
	cp "$root/tests/conformance/tool_check.sh" "$scratch/tree/tests/conformance/"
	"$tool" --list >"$scratch/list"
	sed 's/ulimit -n, LimitNOFILE= of the service/ask the operator/' "$root/samples/tools/check_causes.h" \
		>"$scratch/tree/samples/tools/check_causes.h"
	python3 -B "$make" "$scratch/tree" >"$scratch/other" || return 1
	! diff "$guide" "$scratch/other" >/dev/null || return 1
	! python3 -B "$make" "$scratch/tree" --list "$scratch/list" >/dev/null 2>"$scratch/said" &&
		grep -q 'not as the tool has it:.* open-files' "$scratch/said"
}

# try STATUS COMMAND, whose words are as they stand in the guide.
tried()
{
	want=$1 command=$2
	command=$(printf '%s\n' "$command" | sed "s|\$verbs|$verbs|g; s|\$accel|$accel|g; s|hmreg-check|$tool|")
	# shellcheck disable=SC2086 # no word has a blank
	env $command
	got=$?
	[ $got -eq "$want" ] || {
		echo "exit status $got, the guide has $want: $command"
		return 1
	}
}

each_try()
{
	sed -n 's/^- \*\*Exit status:\*\* \([0-9]*\)$/\1/p; s/^- \*\*Try it:\*\* `\(.*\)`$/ \1/p' "$guide" |
		awk '/^ / { print status, substr($0, 2); next } { status = $0 }' >"$scratch/tries"
	[ "$(wc -l <"$scratch/tries")" -ge 40 ] || return 1
	wrong=0
	while read -r status command; do
		tried "$status" "$command" >"$scratch/try" 2>&1 </dev/null || {
			cat "$scratch/try"
			wrong=1
		}
	done <"$scratch/tries"
	return $wrong
}

attempt troubleshooting_is_up_to_date up_to_date
attempt troubleshooting_has_every_cause complete
attempt troubleshooting_changes_are_seen changes_are_seen
if [ -e "$accel/cuda/libcuda.so.1" ] && [ -e "$verbs/libibverbs.so.1" ]; then
	export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # what a driver refuses to end stays
	attempt troubleshooting_tries each_try
else
	echo "[  SKIPPED ] troubleshooting_tries: no emulated drivers"
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
