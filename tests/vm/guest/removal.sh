#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The device goes while programs use it, and comes again: as good as new for others.
# Usage: removal.sh VM_REMOVAL VM_RAW
. /job/lib.sh
export HMREG_TEST_DOMAIN=rxe0

# regions: how many the kernel holds.
regions()
{
	rdma resource show | awk '{ for (i = 1; i < NF; i++) if ($i == "mr") n += $(i + 1) } END { print n + 0 }'
}

for case in fn_38_under_traffic fn_38_idle; do
	start removal_$case
	"$1" $case || wrong "$case: exit status $?"
	[ ! -e /sys/class/infiniband/rxe0 ] || wrong "the device is still there"
	device rxe0 wire0 || wrong "the device does not come again"
	[ "$(regions)" -eq 0 ] || wrong "the kernel still holds $(regions) regions"
	"$2" >/tmp/raw.log 2>&1 || wrong "the device does not work any more: $(cat /tmp/raw.log)"
	end
done
finish
