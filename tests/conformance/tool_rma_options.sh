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
	if [ $got -eq "$want" ] && grep -q -- "$pattern" "$scratch/err"; then
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
refused rma_client_of_software_nic 2 'works within one process' -d sw-verbs --client localhost
refused rma_server_without_device 3 'no RDMA device' --server
refused rma_client_without_device 3 'no RDMA device' --client localhost
refused rma_both_ends 2 'two processes' --server --client localhost
refused rma_loop_of_client 2 'go with --server' --client localhost --loop
refused rma_port_alone 2 'go with --server or --client' --port 1000
refused rma_port_range 2 'not a number from 1 to 65535' --server --port 65536
refused rma_timeout_range 2 'not a number' --server --timeout 0
refused rma_dmabuf_of_client 2 'goes with --server' --client localhost --dmabuf
refused rma_dmabuf_of_software_nic 3 'no NIC domain' -d sw-verbs --dmabuf
refused rma_unknown_domain 3 nosuch -d nosuch
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
