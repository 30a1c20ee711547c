#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Memory of an emulated accelerator on the machine's device: its dma-bufs are the kernel's own here, made
# by /dev/udmabuf, and the kernel's driver registers them.
# Usage: hmem.sh INTERFACE DRIVERS CONF_HMEM CONF_MR_HMEM [HMREG_RMA]
#   DRIVERS: the folder of the emulated driver.  HMREG_TEST_DOMAIN names the device.
. /job/lib.sh
iface=$1 drivers=$2 conf_hmem=$3 conf_mr_hmem=$4 tool=${5-}

# driven COMMAND...: over the emulated driver.
driven()
{
	LD_LIBRARY_PATH=$drivers HMREG_TEST_HMEM=$iface FI_HMEM=$iface "$@"
}

# program COMMAND...: one of the CMocka programs.
program()
{
	driven "$@" || wrong "${1##*/}: exit status $?"
}

# moves OPTIONS...: by the device's own dma-bufs, every byte and guard word checked.
moves()
{
	driven "$tool" -d "$HMREG_TEST_DOMAIN" --iters 2 --no-progress --json "$@" >/tmp/said ||
		wrong "hmreg-rma: exit status $?"
	cat /tmp/said
	grep -q '^ "verified": true}' /tmp/said || wrong "not every byte was checked"
}

# Without it the driver hands out files that are no dma-bufs, which the kernel refuses to register.
start hmem_udmabuf
[ -w /dev/udmabuf ] || wrong "there is no /dev/udmabuf"
[ -z "${EMU_ACCEL_MEMFD-}" ] || wrong "the driver is told to hand out memfds"
end

start "reg_06_exports_of_$iface"
program "$conf_hmem" "$iface"
end

start "fn_07_regions_of_$iface"
program "$conf_mr_hmem"
end

if [ -n "$tool" ]; then
	start "hmem_tool_target_on_$iface"
	moves --max 64K --iface "$iface"
	grep -q '"path": "dmabuf"' /tmp/said || wrong "the region was not registered as a dma-buf"
	end

	start "hmem_tool_initiator_on_$iface"
	moves --max 4K --local-iface "$iface"
	end

	start "hmem_tool_between_two_of_$iface"
	moves --max 4K --iface "$iface:0" --local-iface "$iface:1"
	end
fi
finish
