#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-rma refuses options that do not fit, with the reason and the exit status that its manual promises.
# Usage: tool_rma_options.sh HMREG-RMA
set -u
tool=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# refused NAME STATUS PATTERN ARGUMENTS...: this exit status, and the pattern on standard error.
refused()
{
	label=$1 want=$2 pattern=$3
	shift 3
	"$tool" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	if [ $got -eq "$want" ] && (echo; cat "$scratch/err") | grep -q -- "$pattern"; then
		passed=$((passed + 1))
		echo "[       OK ] $label"
	else
		failed=$((failed + 1))
		cat "$scratch/out" "$scratch/err"
		echo "exit status $got instead of $want, or not a word about \"$pattern\""
		echo "[  FAILED  ] $label"
	fi
}

export HMREG_VERBS_ENABLE=0
refused rma_server_of_software_nic 2 'works within one process' -d sw-verbs --server
refused rma_client_of_software_nic 2 'works within one process' -d sw-verbs --client 127.0.0.1
refused rma_server_without_device 3 'no RDMA device' --server
refused rma_client_without_device 3 'no RDMA device' --client 127.0.0.1
refused rma_both_ends 2 'two processes' --server --client 127.0.0.1
refused rma_loop_of_client 2 'go with --server' --client 127.0.0.1 --loop
refused rma_port_alone 2 'go with --server or --client' --port 1000
refused rma_port_range 2 'not a number from 1 to 65535' --server --port 65536
refused rma_timeout_range 2 'not a number' --server --timeout 0
refused rma_dmabuf_of_client 2 'go with --server' --client 127.0.0.1 --dmabuf
refused rma_iface_of_client 2 'go with --server' --client 127.0.0.1 --iface cuda
refused rma_local_iface_of_server 2 'goes with --client' --server --local-iface cuda
refused rma_iface_and_dmabuf 2 'has its own' --iface cuda --dmabuf
refused rma_unknown_iface 2 'no kind of memory' --iface gpu
refused rma_device_of_host_memory 2 'host memory has none' --iface system:0
refused rma_device_not_a_number 2 'a number behind the colon' --iface cuda:one
refused rma_device_negative 2 'a number behind the colon' --local-iface cuda:-1
export FI_HMEM='^cuda'
refused hmem_02_rma_iface_left_out 3 'cuda cannot be used: left out by FI_HMEM' --iface cuda
refused hmem_02_rma_local_iface_left_out 3 'cuda cannot be used: left out by FI_HMEM' --local-iface cuda:1
export FI_HMEM=cudaa
refused hmem_02_rma_mistyped_is_told 3 'FI_HMEM: "cudaa" is none of cuda, rocr, ze, neuron, synapseai' --iface cuda
refused hmem_02_rma_mistyped_leaves_out 3 'cuda cannot be used: left out by FI_HMEM=cudaa' --iface cuda
export FI_HMEM=none
refused hmem_02_rma_none_is_a_word 3 '^hmreg-rma: cuda cannot be used: left out by FI_HMEM=none' --iface cuda
unset FI_HMEM
# The software NIC maps a dma-buf; where the machine makes none, the reason names both of its makers.
if [ -w /dev/udmabuf ] || [ -r /dev/dma_heap/system ]; then
	refused rma_dmabuf_of_software_nic 0 '^$' -d sw-verbs --dmabuf --max 64K --iters 20
	grep -q 'the NIC reaches the target.s memory as a dma-buf, mapped' "$scratch/out" || {
		failed=$((failed + 1))
		echo "[  FAILED  ] rma_dmabuf_of_software_nic_is_mapped"
	}
else
	echo "no /dev/udmabuf and no /dev/dma_heap here: that a dma-buf works is not shown"
	refused rma_dmabuf_that_nobody_makes 4 '/dev/udmabuf: .*/dev/dma_heap' -d sw-verbs --dmabuf
fi
refused rma_no_desc_of_server 2 'goes with --client' --server --no-desc
refused rma_no_desc_where_they_are_needed 3 "'sw-verbs' .*without descriptors .*FI_MR_LOCAL" -d sw-verbs --no-desc
refused rma_unknown_domain 3 "^hmreg-rma: there is no NIC domain 'nosuch'; there are sw-" -d nosuch

# demo_reads WANT ARGUMENTS...: one run or several, whether bytes move, and whether the result is JSON.
demo_reads()
{
	want=$1
	shift
	eval "$(sed -n '/^read_options()/,/^}/p' "$(dirname "$0")/../../samples/demo.sh")"
	read_options "$@"
	json=${json:+json}
	if [ "${once:-each} ${moves:-none} ${json:-table}" = "$want" ]; then
		passed=$((passed + 1))
		echo "[       OK ] demo_reads $*"
	else
		failed=$((failed + 1))
		echo "instead of $want: ${once:-each} ${moves:-none} ${json:-table}"
		echo "[  FAILED  ] demo_reads $*"
	fi
}

demo_reads 'each yes table' --max 4K
demo_reads 'each yes table' --local-iface cuda
demo_reads 'each yes table' --iface cuda --local-iface list
demo_reads 'each yes table' --local-iface=cuda --no-progress
demo_reads 'yes yes json' --loop --server --json
demo_reads 'yes none table' --list
demo_reads 'yes none json' list --json
demo_reads 'yes yes table' --client=198.51.100.1 -q
demo_reads 'yes yes json' --client 198.51.100.1 --json
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
