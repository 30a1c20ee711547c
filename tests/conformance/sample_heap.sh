#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What the sample of symmetric heaps answers to arguments that make no sense, and where there is no accelerator.
# Usage: sample_heap.sh SYMMETRIC_HEAP
set -u
program=$1
cd "$(dirname "$0")/../.." || exit 1
. tests/attempt.sh

attempt heap_of_one answers 2 'usage:' "$program" sw-verbs host 1
attempt heap_of_too_many answers 2 'usage:' "$program" sw-verbs host 17
attempt heap_too_many_arguments answers 2 'usage:' "$program" sw-verbs host 4 5
attempt heap_kind_unknown answers 1 '"pigeon" is neither host nor an accelerator' "$program" sw-verbs pigeon
attempt heap_domain_unknown answers 1 'no NIC domain nowhere' "$program" nowhere
# with no driver in reach: nothing to load is the reason, and it is named
attempt heap_no_driver env LD_LIBRARY_PATH= sh -c '
	"$1" sw-verbs cuda >"$2" 2>&1
	status=$?
	cat "$2"
	[ $status -eq 0 ] || { [ $status -eq 77 ] && grep -q "^skipped: cuda: ..*" "$2"; }' sh "$program" "$scratch/said"
attempt heap_of_two answers 0 '2 PEs' "$program" sw-strict host 2
attempt heap_of_many answers 0 '16 PEs' "$program" sw-scalable host 16
[ "$failed" -eq 0 ]
