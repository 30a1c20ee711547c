#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Usage: run.sh PROGRAM
# Runs one libFuzzer program for HMREG_FUZZ_SECONDS (10) from the inputs kept in corpus/NAME.  New
# inputs stay beside the program, so the next run goes on from there; an input that crashes it is
# left there as crash-*.
set -eu
program=$1
name=${program##*/}
seeds=$(cd "$(dirname "$0")" && pwd)/corpus/$name
found=${program%/*}/corpus-$name
mkdir -p "$found"
set -- "$found"
[ ! -d "$seeds" ] || set -- "$@" "$seeds"
status=0
"$program" -max_total_time="${HMREG_FUZZ_SECONDS:-10}" -timeout=10 -print_final_stats=1 \
	-artifact_prefix="${program%/*}/$name-" "$@" || status=$?
if [ $status -eq 0 ]; then
	echo "[       OK ] $name"
else
	echo "[  FAILED  ] $name"
fi
exit $status
