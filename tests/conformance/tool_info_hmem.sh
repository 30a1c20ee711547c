#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-info on an emulated accelerator: interfaces, devices, ways, and the trial of each.
# Usage: tool_info_hmem.sh HMREG-INFO INTERFACE DRIVERS   DRIVERS: the folder of the emulated driver
set -u
tool=$1 iface=$2 drivers=$3
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL

if ! ls "$drivers"/lib*.so* >/dev/null 2>&1; then
	echo "no emulated driver of $iface in $drivers: skipped"
	exit 77
fi

# exits STATUS ARGUMENTS...: what it prints is in out.
exits()
{
	want=$1
	shift
	"$tool" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ]
}

# The dynamic linker's own record of what was opened.
opened()
{
	grep -hq 'file=[^ ]*lib\(cuda\|hsa-runtime64\|ze_loader\|nrt\|Synapse\)\.so' "$scratch"/ld.*
}

plain_list_loads_no_driver()
{
	LD_DEBUG=files LD_DEBUG_OUTPUT=$scratch/ld exits 0 || return 1
	! opened && has '--hmem loads their drivers'
}

lists_devices_and_ways()
{
	LD_DEBUG=files LD_DEBUG_OUTPUT=$scratch/ld exits 0 --hmem || return 1
	opened && has "^  $iface  *[0-9][0-9]* device" && has "^  $iface:[0-9]* .*PCI" &&
		has "^  $iface:[0-9]*  *sw-strict  *no \[[0-9]\].* yes  *copy$" && has '^  \[1\] [^-]'
}

every_page_is_right()
{
	exits 0 --check || return 1
	has "^  host  *sw-verbs  *right" && has "^  $iface:[0-9]*  *sw-strict  *right, by copies" &&
		! grep -q 'FAILED\|not tried' "$scratch/out"
}

json_tells_the_same()
{
	exits 0 --check --json || return 1
	has "\"name\": \"$iface\", .*\"usable\": true" && has "\"iface\": \"$iface\", .*\"first\": \"copy\"" &&
		has "\"iface\": \"$iface\", .*\"outcome\": \"right\", \"path\": \"copy\"" || return 1
	command -v python3 >/dev/null 2>&1 || return 0
	python3 -m json.tool "$scratch/out" >/dev/null
}

# One allocation fails (ROCr: the second, for the first is the interface's own): that cell alone, with the step,
# the reason and a remedy.
failing_step_is_told()
{
	case $iface in
	cuda) fail=EMU_CUDA_FAIL=cuMemAlloc_v2:1:2 ;;
	rocr) fail=EMU_ROCR_FAIL=hsa_amd_memory_pool_allocate:2:0x1008 ;;
	ze) fail=EMU_ZE_FAIL=zeMemAllocDevice:1:0x70000003 ;;
	neuron) fail=EMU_NEURON_FAIL=nrt_tensor_allocate:1:1 ;;
	synapseai) fail=EMU_SYNAPSEAI_FAIL=synDeviceMalloc:1:7 ;;
	esac
	# shellcheck disable=SC2163 # it is a setting
	export "$fail"
	exits 3 --check -d sw-verbs
	ret=$?
	unset "${fail%%=*}"
	[ $ret -eq 0 ] && has '^  host  *sw-verbs  *right' && has "^  $iface.*FAILED at step \"allocate\": " &&
		has '^  *remedy: ' && [ "$(grep -c FAILED "$scratch/out")" -eq 1 ]
}

left_out_is_told()
{
	FI_HMEM="^$iface" exits 0 --hmem || return 1
	has 'not usable: left out by FI_HMEM'
}

attempt fn_21_info_plain_list_loads_no_driver plain_list_loads_no_driver
attempt fn_21_info_lists_devices_and_ways lists_devices_and_ways
attempt info_every_page_is_right every_page_is_right
attempt info_json_tells_the_same json_tells_the_same
attempt info_failing_step_is_told failing_step_is_told
attempt hmem_02_info_left_out_is_told left_out_is_told
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
