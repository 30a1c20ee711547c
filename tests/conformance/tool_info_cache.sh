#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-info --cache: the figures of a process that transfers without descriptors, while it runs, after it was
# killed, and after it has ended by itself.
# Usage: tool_info_cache.sh HMREG-INFO HMREG-RMA
set -u
info=$1 rma=$2
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL HMREG_CACHE_STATS
stats=$scratch/stats
mkdir "$stats"

# told STATUS PATTERN ARGUMENTS...: this exit status, and the pattern on standard error.
told()
{
	want=$1 pattern=$2
	shift 2
	"$info" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] && grep -q -- "$pattern" "$scratch/err"
}

# The small sizes take no time, the last one minutes.
start()
{
	HMREG_CACHE_STATS=$stats "$rma" -d sw-scalable --no-desc --ops write --min 8 --max 32M --iters 5000 \
		--no-progress >"$scratch/rma" 2>&1 &
	pid=$!
}

# shown ARGUMENTS...: figures of the process that are not all 0, in a while.
shown()
{
	tries=0
	until "$info" --cache "$pid" "$@" >"$scratch/out" 2>"$scratch/err" &&
		grep -Eq '^sw-scalable +all +[1-9][0-9]* +[1-9][0-9]* +[0-9.]+% ' "$scratch/out"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] && kill -0 "$pid" 2>/dev/null || {
			cat "$scratch/out" "$scratch/err"
			return 1
		}
		sleep 0.1
	done
	cat "$scratch/out"
}

running_is_shown()
{
	shown --stats-dir "$stats" && grep -q "^process $pid, monitor " "$scratch/out" &&
		grep -Eq '^ +system +[1-9]' "$scratch/out"
}

# Without a folder: that of the process's own environment.
folder_is_found()
{
	shown
}

json_is_valid()
{
	"$info" --cache "$pid" --stats-dir "$stats" --json >"$scratch/out" || return 1
	grep -q "\"pid\": $pid, \"ended\": false" "$scratch/out" &&
		grep -q '"domain": "sw-scalable"' "$scratch/out" || return 1
	command -v python3 >/dev/null 2>&1 || return 0
	python3 -m json.tool "$scratch/out" >"$scratch/log2"
}

file_is_private()
{
	[ "$(stat -c '%a' "$stats/hmreg-cache.$pid")" = 600 ]
}

killed_is_told()
{
	kill -9 "$pid" && ! wait "$pid" 2>/dev/null
	told 1 "process $pid has ended" --cache "$pid" --stats-dir "$stats" && grep -q 'which has ended' "$scratch/out" &&
		rm "$stats/hmreg-cache.$pid"
}

ended_leaves_nothing()
{
	HMREG_CACHE_STATS=$stats "$rma" -d sw-scalable --no-desc --ops write --min 64 --max 64 --iters 10 --no-progress \
		>"$scratch/out" && [ -z "$(ls "$stats")" ]
}

start
attempt cache_info_running running_is_shown
attempt cache_info_folder_of_process folder_is_found
attempt cache_info_json json_is_valid
attempt cache_info_file_is_private file_is_private
attempt cache_info_killed killed_is_told
attempt cache_info_ended ended_leaves_nothing
attempt cache_info_no_process told 1 'no such process' --cache 2147483647 --stats-dir "$stats"
attempt cache_info_no_file told 1 'HMREG_CACHE_STATS=FOLDER' --cache $$ --stats-dir "$stats"
attempt cache_info_no_folder told 1 'in which folder' --cache $$
attempt cache_info_no_number told 2 'number of a process' --cache x
attempt cache_info_zero told 2 'number of a process' --cache 0
attempt cache_info_folder_alone told 2 'goes with --cache' --stats-dir "$stats"
attempt cache_info_with_device told 2 'goes with' --cache 1 sw-scalable
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
