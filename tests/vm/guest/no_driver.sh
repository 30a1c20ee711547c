#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A kernel without RDMA: the device is not known, and the software NIC works as ever.
# Usage: no_driver.sh VM_LOOKUP HMREG_RMA
. /job/lib.sh
export FI_LOG_LEVEL=warn

start no_driver_is_no_device
[ ! -e /sys/class/infiniband_verbs ] || wrong "there is a driver"
"$1" rxe0 >/tmp/said 2>/tmp/lines || wrong "vm_lookup: exit status $?"
cat /tmp/said /tmp/lines
grep -qx 'fi_getinfo -61' /tmp/said || wrong "expected fi_getinfo -61"
[ "$(wc -l </tmp/lines)" -eq 1 ] && grep -q rxe0 /tmp/lines || wrong "expected one line that names rxe0"
end

start no_driver_software_nic
"$2" -d sw-verbs --max 64K --iters 10 --quiet --no-progress || wrong "hmreg-rma: exit status $?"
end
finish
