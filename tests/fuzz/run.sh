#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs the fuzzers, each for its share of the time, from the inputs kept in corpus/NAME.
# Usage: run.sh [SECONDS [PROGRAM...]]
#   SECONDS  for all together (default, and for -: HMREG_FUZZ_SECONDS, else 60)
#   PROGRAM  libFuzzer programs that are built (default: builds all of them in build/fuzz first)
# New inputs stay beside the program, in found-NAME, and the next run goes on from there; an input that
# breaks a promise or crashes is left there as NAME-crash-*.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
case ${1:-} in
-h | --help)
	sed -n '/^# Runs/,/^set/s/^# \{0,1\}//p' "$0"
	exit 0
	;;
esac
seconds=${1:-}
[ $# -eq 0 ] || shift
[ "$seconds" != - ] || seconds=
seconds=${seconds:-${HMREG_FUZZ_SECONDS:-60}}
case $seconds in
*[!0-9]* | "")
	echo "error: \"$seconds\" is no number of seconds" >&2
	exit 2
	;;
esac

# Builds the fuzzers of this tree; what it says is kept beside them.
build()
{
	mkdir -p "$root/build/fuzz"
	(cd "$root" && cmake --preset fuzz && cmake --build build/fuzz) >"$root/build/fuzz/build.log" 2>&1 && return
	tail -n 20 "$root/build/fuzz/build.log" >&2
	exit 1
}

# fuzz PROGRAM SECONDS
fuzz()
{
	name=${1##*/}
	found=${1%/*}/found-$name
	log=${1%/*}/$name.log
	mkdir -p "$found"
	echo "[ RUN      ] $name"
	if "$1" -max_total_time="$2" -max_len=2048 -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="${1%/*}/$name-" \
		"$found" "$here/corpus/$name" >"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "$name: $runs inputs in $2 s"
		echo "[       OK ] $name"
		passed=$((passed + 1))
	else
		tail -n 60 "$log"
		echo "[  FAILED  ] $name"
		failed=$((failed + 1))
	fi
}

passed=0 failed=0
if [ $# -eq 0 ]; then
	build
	set -- "$root"/build/fuzz/tests/fuzz/fuzz_getinfo "$root"/build/fuzz/tests/fuzz/fuzz_mr_attr \
		"$root"/build/fuzz/tests/fuzz/fuzz_verbs_frames
fi
share=$((seconds / $#))
[ $share -gt 0 ] || share=1
for program in "$@"; do
	fuzz "$program" $share
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
