#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-rma on the memory of an emulated accelerator: at the target, at the initiator, and at both on two
# devices; every byte and every guard word is read back from the device.
# Usage: tool_rma_iface.sh HMREG-RMA INTERFACE DRIVERS DOMAIN   DRIVERS: the folder of the emulated driver
set -u
tool=$1 iface=$2 drivers=$3 domain=$4
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL

if ! ls "$drivers"/lib*.so* >/dev/null 2>&1; then
	echo "no emulated driver of $iface in $drivers: skipped"
	exit 77
fi

# refused STATUS PATTERN ARGUMENTS...: this exit status, and the pattern on standard error.
refused()
{
	want=$1 pattern=$2
	shift 2
	"$tool" -d "$domain" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] && grep -q -- "$pattern" "$scratch/err"
}

moves()
{
	"$tool" -d "$domain" --no-progress --iters 1 --json "$@" >"$scratch/out" || return 1
	cat "$scratch/out"
	grep -q '^ "verified": true}' "$scratch/out"
}

# The numbers of the devices, one a line: as the tool names them when it is asked for one that is not there.
devices()
{
	"$tool" -d "$domain" --iface "$iface:0x7ffffff" 2>&1 | sed -n 's/.*there are //p' |
		tr ',' '\n' | sed -n 's/^ *\([0-9][0-9]*\) (.*/\1/p'
}

target_is_on_the_device()
{
	moves --max 64 --iface "$iface" || return 1
	grep -q "\"iface\": \"$iface\", \"device\": [0-9]*, \"local_iface\": \"system\"" "$scratch/out" || return 1
	# a NIC of software copies; hardware takes a dma-buf
	case $domain in
	sw-*) grep -q '"path": "copy"' "$scratch/out" ;;
	*) grep -q '"path": "dmabuf"' "$scratch/out" ;;
	esac
}

attempt "rma_${iface}_target_on_the_device" target_is_on_the_device
attempt "rma_${iface}_initiator_on_the_device" moves --max 8 --local-iface "$iface"
set -- $(devices)
attempt "rma_${iface}_has_devices" [ $# -ge 1 ]
if [ $# -ge 2 ]; then
	attempt "rma_${iface}_between_two_devices" moves --min 4K --max 4K --iface "$iface:$1" --local-iface "$iface:$2"
else
	echo "$iface has one device: nothing is moved between two"
fi
attempt "rma_${iface}_device_out_of_range" refused 3 "$iface has no device 134217727; there are $1 " \
	--iface "$iface:0x7ffffff"

# One allocation fails: what the driver said is in the line.
error_of_the_driver_is_told()
{
	case $iface in
	cuda) fail=EMU_CUDA_FAIL=cuMemAlloc_v2:1:2 said=CUDA_ERROR_OUT_OF_MEMORY ;;
	rocr) fail=EMU_ROCR_FAIL=hsa_amd_memory_pool_allocate:2:0x1008 said=HSA_STATUS_ERROR_OUT_OF_RESOURCES ;;
	ze) fail=EMU_ZE_FAIL=zeMemAllocDevice:1:0x70000003 said=ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY ;;
	neuron) fail=EMU_NEURON_FAIL=nrt_tensor_allocate:1:1 said=nrt_tensor_allocate ;;
	synapseai) fail=EMU_SYNAPSEAI_FAIL=synDeviceMalloc:1:7 said=synDeviceMalloc ;;
	esac
	# shellcheck disable=SC2163 # it is a setting
	export "$fail"
	refused 4 "^hmreg-rma: .*$said.* of $iface:[0-9]*: " --iface "$iface" --max 4K
	ret=$?
	unset "${fail%%=*}"
	[ $ret -eq 0 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ]
}

no_way_to_devices_is_told()
{
	FI_HMEM_DISABLE_P2P=1 refused 3 "there are $domain (no dma-bufs: FI_HMEM_DISABLE_P2P is set)" --iface "$iface"
}

# exports_as WANT LIST: what is exported is asked for with the PCIe mapping, or not, and the driver has none.
exports_as()
{
	HMREG_DMABUF_PCIE=$2 EMU_CUDA=pcie=0 FI_LOG_LEVEL=info "$tool" -d "$domain" --no-progress --iters 1 --max 8 \
		--iface cuda:0 >"$scratch/out" 2>"$scratch/err" || return 1
	found=no
	! grep -q 'exported without the PCIe mapping' "$scratch/err" || found=yes
	[ $found = "$1" ]
}

case $domain in
sw-*) ;;
*)
	attempt "rma_${iface}_no_way_to_devices_is_told" no_way_to_devices_is_told
	if [ "$iface" = cuda ]; then
		attempt fn_24_pcie_of_this_pair exports_as yes "cuda0/$domain"
		attempt fn_24_pcie_as_the_tools_write_it exports_as yes "cuda:0/$domain"
		attempt fn_24_pcie_of_this_nic exports_as yes "$domain"
		attempt fn_24_pcie_of_another_device exports_as no "cuda1/$domain,cuda:1/$domain,cuda:0/other"
	fi
	;;
esac
attempt "rma_${iface}_error_of_the_driver_is_told" error_of_the_driver_is_told
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
