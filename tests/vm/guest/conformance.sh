#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs programs of the conformance tests on the machine's device, all of them, whatever fails.
# Usage: conformance.sh PROGRAM...      HMREG_TEST_DOMAIN names the device.
. /job/lib.sh

for program in "$@"; do
	tests=$((tests + 1))
	echo "---- ${program##*/}"
	"$program"
	status=$?
	case $status in
	0) ;;
	77) skips=$((skips + 1)) ;;
	*)
		echo "${program##*/}: exit status $status"
		failures=$((failures + 1))
		;;
	esac
done
echo "$tests programs, $failures failed, $skips skipped"
finish
