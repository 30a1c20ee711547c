#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# All tests of the registration cache's freshness at the same time, for long, and a table of what they did, as
# tests/bench/RESULTS.md has it.
# Usage: tests/stress/fresh_soak.sh [BUILD] [SECONDS]
#   BUILD    folder of a build that has the tests (default: build/release)
#   SECONDS  of each program (default: 600)
set -u
cd "$(dirname "$0")/../.." || exit 1

build=${1:-build/release}
seconds=${2:-600}
log=$build/Testing/Temporary/LastTest.log

HMREG_FRESH_SECONDS=$seconds ctest --test-dir "$build" -R '^stress_fresh' -j 64 \
	--timeout $((seconds * 2 + 600)) --output-on-failure
status=$?
echo "| monitor | allocator | told by | seconds | changes | hits | stale hits |"
echo "|---|---|---|---|---|---|---|"
sed -n 's/^total: \(.*\) s | \(.*\) changes | \(.*\) hits | \(.*\) stale$/| \1 | \2 | \3 | \4 |/p' "$log" | sort
sed -n 's/^total: loaded/loaded/p' "$log"
exit $status
