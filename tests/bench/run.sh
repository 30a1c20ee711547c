#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds a release and runs the benchmarks.
# Usage: tests/bench/run.sh [NAME...] [--tsv]
#   NAME   a benchmark program (default: all)
#   --tsv  print each figure as name<TAB>value<TAB>unit, and nothing else on standard output
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/packages.sh

known=$(sed -n '/^set(HMREG_BENCHMARKS/,/^)/s/^ *\([a-z0-9_]*\)$/\1/p' tests/bench/CMakeLists.txt)
names= tsv=
for word in "$@"; do
	case $word in
	--tsv) tsv=--tsv ;;
	-h | --help)
		sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,$p'
		exit 0
		;;
	*)
		if ! printf '%s\n' "$known" | grep -qx -e "$word"; then
			echo "error: no benchmark \"$word\"; there are:" $known >&2
			exit 2
		fi
		names="$names $word"
		;;
	esac
done

hm_packages build >&2 || exit 1
log=build/bench.log
mkdir -p build
if ! { hm_configure release build/bench -DHMREG_BUILD_SAMPLES=OFF -DHMREG_BUILD_TESTS=OFF \
	-DHMREG_BUILD_BENCH=ON && cmake --build build/bench -j "$(hm_jobs)"; } >$log 2>&1; then
	tail -n 40 $log >&2
	echo "error: the build failed; its whole output is in $log" >&2
	exit 1
fi

status=0
for name in ${names:-$known}; do
	build/bench/tests/bench/$name $tsv || {
		status=1
		echo "error: $name failed" >&2
	}
done
exit $status
