#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Checks the model of the registration cache (cache.pml) with spin, over all its states; and that the model can
# fail: with any one of its rules left out, spin finds what goes wrong.
#
# Usage: run.sh CC
#   HMREG_MODEL_LONG=1: more rounds, and one more thread that looks up; minutes, and 2 GB
set -eu

cc=${1:-cc}
model=$(cd "$(dirname "$0")" && pwd)/cache.pml
if ! command -v spin >/dev/null 2>&1; then
	echo "[  SKIPPED ] model of the registration cache: spin is not installed"
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# errors OPTIONS...: how many spin finds, 0 or 1.
errors()
{
	spin "$@" -a "$model" >spin.log 2>&1 &&
		$cc -O2 -DSAFETY -DMEMLIM=6000 -w -o pan pan.c >cc.log 2>&1 || {
		cat spin.log cc.log >&2
		return 1
	}
	./pan -m100000 >pan.log 2>&1 || true
	# all states: neither the memory nor the depth was too small
	if grep -q 'max search depth too small\|out of memory\|Search not completed.*memory' pan.log; then
		cat pan.log >&2
		return 1
	fi
	sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log
}

bad=0
report()
{
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	if [ "$found" = "$2" ]; then
		echo "ok: $1 ($states states)"
	else
		echo "WRONG: $1: errors: ${found:-not told}, not $2"
		cat pan.log
		bad=1
	fi
}

found=$(errors -DROUNDS=1)
report "the cache as it is" 0
if [ -n "${HMREG_MODEL_LONG:-}" ]; then
	found=$(errors -DROUNDS=2)
	report "the cache as it is, more rounds" 0
	found=$(errors -DROUNDS=1 -DHOLDERS=2)
	report "the cache as it is, more threads" 0
fi
for rule in RECHECK BARRIER CHANGES DOOMED BEGIN GENERATION AGAIN; do
	found=$(errors -DROUNDS=1 "-DNO_$rule")
	report "found faulty without $rule" 1
done
exit $bad
