#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-check: each of its causes is provoked on the emulated drivers, and told with exit status, evidence and remedy,
# as text and as JSON.  Causes that take a kernel's RDMA device are provoked in tests/vm/guest/check.sh.
# Usage: tool_check.sh HMREG-CHECK ACCELERATORS VERBS   the folders of the emulated drivers
set -u
tool=$1 accel=$2 verbs=$3
here=$(dirname "$0")
. "$here/../attempt.sh"
unset FI_LOG_LEVEL FI_HMEM FI_HMEM_DISABLE_P2P HMREG_VERBS_DEVICES HMREG_VERBS_ENABLE HMREG_EMU_VERBS

for library in "$accel/cuda/libcuda.so.1" "$verbs/libibverbs.so.1"; do
	[ -e "$library" ] || {
		echo "no emulated driver $library: skipped"
		exit 77
	}
done

cuda=$verbs:$accel/cuda rocr=$verbs:$accel/rocr ze=$verbs:$accel/ze neuron=$verbs:$accel/neuron
table=$scratch/table provoked=$scratch/provoked
"$tool" --list >"$table" || exit 1
: >"$provoked"

status_of()
{
	awk -F '\t' -v id="$1" '$2 == id { print $1 }' "$table"
}

# tells ID STATUS WORDS...: the command ends with the status, and its text names cause, evidence and remedy.
tells()
{
	id=$1 want=$2
	shift 2
	"$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] || {
		echo "exit status $got, expected $want"
		return 1
	}
	cat "$scratch/out" "$scratch/err" >"$scratch/both"
	grep -q "^cause: $id (exit status $want)\$" "$scratch/both" || {
		echo "the cause is not $id"
		return 1
	}
	# the command line's mistakes are told in one sentence
	[ "$want" -gt 1 ] && [ "$want" -lt 10 ] && return 0
	awk '/^evidence:$/ { on = 1; next } /^$/ { on = 0 } on && /^  [^ ]/ { found = 1 } END { exit !found }' \
		"$scratch/both" || [ "$id" = p2p-off ] || {
		echo "no evidence"
		return 1
	}
	sed -n '/^remedy:$/,$p' "$scratch/both" | sed 1d | grep -q '^  [A-Za-z`]' || {
		echo "no remedy"
		return 1
	}
}

# tells_json ID STATUS WORDS...: the same in JSON; the words have the tool's name followed by --json.
tells_json()
{
	id=$1 want=$2
	shift 2
	"$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] && grep -q "\"status\": $want, \"cause\": \"$id\", " "$scratch/out" &&
		grep -q '"remedy": "[^"]' "$scratch/out" || return 1
	command -v python3 >/dev/null 2>&1 || return 0
	python3 -m json.tool "$scratch/out" >/dev/null
}

# provokes ID [VARIABLE=VALUE...] ARGUMENTS...
provokes()
{
	cause=$1 settings=
	shift
	while [ $# -gt 0 ] && expr "$1" : '[A-Z0-9_]*=' >/dev/null; do
		settings="$settings $1"
		shift
	done
	status=$(status_of "$cause")
	echo "$cause" >>"$provoked"
	# shellcheck disable=SC2086 # none of the settings has a blank
	attempt "check_$cause" tells "$cause" "${status:-none}" env $settings "$tool" "$@"
	# shellcheck disable=SC2086
	attempt "check_${cause}_json" tells_json "$cause" "${status:-none}" env $settings "$tool" --json "$@"
}

on_emu0="LD_LIBRARY_PATH=$verbs"
on_cuda="LD_LIBRARY_PATH=$cuda"

# ---- what works ----

works()
{
	env "$@" >"$scratch/out" 2>&1
	got=$?
	cat "$scratch/out"
	[ $got -eq 0 ] && grep -q '^All works\.$' "$scratch/out"
}
attempt check_host_works works "$on_emu0" "$tool"
attempt check_cuda_works works "$on_cuda" "$tool" --iface cuda --device 1 --size 100000
attempt check_pinned_works works "$on_cuda" "$tool" --iface cuda pinned
attempt check_software_works works "$on_cuda" "$tool" --nic sw-strict --iface cuda managed

# ---- options ----

provokes usage --nonsense
provokes usage --size
provokes usage host host
attempt check_usage_json_behind tells_json usage 2 "$tool" --nonsense --json
provokes bad-size --size 12Q
provokes bad-size --size 0
provokes bad-size --size -4K
provokes bad-size --size 99999999T
provokes bad-kind nothing
provokes bad-interface --iface nosuch
provokes bad-interface --iface cuda:1
provokes bad-device --iface cuda --device one
provokes kind-elsewhere managed
provokes kind-elsewhere --iface cuda read-only
provokes kind-elsewhere --device 0

# ---- driver and device ----

mkdir -p "$scratch/broken" "$scratch/old"
echo "no library" >"$scratch/broken/libcuda.so.1"
cp "$accel/cuda/libnvidia-ml.so.1" "$scratch/old/libcuda.so.1"

provokes interface-off "$on_cuda" FI_HMEM=^cuda --iface cuda
provokes driver-absent "$on_emu0" --iface neuron
provokes driver-broken "LD_LIBRARY_PATH=$scratch/broken:$verbs" --iface cuda
provokes driver-old "LD_LIBRARY_PATH=$scratch/old:$verbs" --iface cuda
provokes driver-stub "$on_cuda" EMU_CUDA_FAIL=cuInit:1:34 --iface cuda
provokes module-mismatch "$on_cuda" EMU_CUDA_FAIL=cuInit:1:803 --iface cuda
provokes device-permission "$on_cuda" EMU_CUDA_FAIL=cuInit:1:800 --iface cuda
# systems with and without the module
mkdir -p "$scratch/none/module" "$scratch/loaded/module/nvidia"
provokes module-absent "$on_cuda" "HMREG_SYSFS=$scratch/none" EMU_CUDA_FAIL=cuInit:1:999 --iface cuda
provokes module-absent "$on_cuda" "HMREG_SYSFS=$scratch/none" EMU_CUDA=devices=0 --iface cuda
provokes driver-failed "$on_cuda" "HMREG_SYSFS=$scratch/loaded" EMU_CUDA_FAIL=cuInit:1:999 --iface cuda
provokes no-device "$on_cuda" "HMREG_SYSFS=$scratch/loaded" EMU_CUDA=devices=0 --iface cuda
on_ze="LD_LIBRARY_PATH=$ze" ze_driver=ZE_ENABLE_ALT_DRIVERS=libze_emu.so.1
provokes driver-failed "$on_ze" $ze_driver EMU_ZE_FAIL=zeContextCreate:1:0x7ffffffe --iface ze
provokes no-device "$on_ze" $ze_driver EMU_ZE=devices=0 --iface ze
provokes device-unknown "$on_cuda" --iface cuda --device 99
provokes driver-call "$on_cuda" EMU_CUDA_FAIL=cuMemAlloc_v2:1:999 --iface cuda
provokes device-memory "$on_cuda" EMU_CUDA_FAIL=cuMemAlloc_v2:1:2 --iface cuda
provokes host-memory --size 128T
provokes no-such-memory "LD_LIBRARY_PATH=$neuron" --iface neuron managed

# ---- memory ----

provokes range-beyond "$on_cuda" --iface cuda beyond
provokes range-mixed "$on_cuda" --iface cuda mixed
provokes owner-other "$on_cuda" --iface cuda foreign
provokes freed "$on_cuda" --iface cuda freed
provokes managed "$on_cuda" --iface cuda managed
provokes not-exportable "$on_ze" $ze_driver EMU_ZE=private=0 --iface ze private
provokes unmapped "$on_emu0" unmapped
provokes read-only "$on_emu0" read-only
provokes no-access "$on_emu0" no-access
provokes device-mapping "$on_emu0" --size 4K device-mapping
provokes not-pinnable "$on_emu0" short-file

# ---- export and import ----

provokes export-old "LD_LIBRARY_PATH=$verbs:$accel/rocr/old" --iface rocr
provokes export-unsupported "$on_cuda" EMU_CUDA=dmabuf=0 --iface cuda
provokes export-refused "$on_cuda" EMU_CUDA_FAIL=cuMemGetHandleForAddressRange:1:801+ --iface cuda
provokes export-failed "$on_cuda" EMU_CUDA_FAIL=cuMemGetHandleForAddressRange:1:999+ --iface cuda
provokes p2p-off "$on_cuda" FI_HMEM_DISABLE_P2P=1 --iface cuda
provokes no-way "$on_cuda" HMREG_EMU_VERBS=dmabuf=0 --iface cuda
provokes import-rights "$on_cuda" HMREG_EMU_VERBS=fail=ibv_reg_dmabuf_mr:-1:EACCES --iface cuda
provokes import-no-room "$on_cuda" HMREG_EMU_VERBS=fail=ibv_reg_dmabuf_mr:-1:ENOMEM --iface cuda
provokes import-refused "$on_cuda" HMREG_EMU_VERBS=fail=ibv_reg_dmabuf_mr:-1:EFAULT --iface cuda

# ---- the NIC ----

echo "no library" >"$scratch/broken/libibverbs.so.1"
provokes nic-none "$on_emu0" HMREG_EMU_VERBS=devices=0
provokes nic-unknown "$on_emu0" --nic nosuch0
provokes nic-left-out "$on_emu0" HMREG_VERBS_DEVICES=^emu0 --nic emu0
provokes nic-left-out "$on_emu0" HMREG_VERBS_DEVICES=^emu0
provokes nic-library "LD_LIBRARY_PATH=$scratch/broken"
provokes nic-file "$on_emu0" HMREG_EMU_VERBS=open=ENOENT
provokes nic-permission "$on_emu0" HMREG_EMU_VERBS=open=EACCES
mkdir -p "$scratch/rdma/class/infiniband/fake0"
provokes nic-module "$on_emu0" "HMREG_SYSFS=$scratch/rdma" --nic fake0
mkdir -p "$scratch/provider/class/infiniband/fake0" "$scratch/provider/class/infiniband_verbs"
provokes nic-provider "$on_emu0" "HMREG_SYSFS=$scratch/provider" --nic fake0
provokes nic-no-answer "$on_emu0" HMREG_EMU_VERBS=open=EIO
provokes nic-port-down "$on_emu0" HMREG_EMU_VERBS=port=down
provokes nic-no-port "$on_emu0" --nic emu0:9
provokes nic-files "$on_emu0" HMREG_EMU_VERBS=open=EMFILE
provokes nic-domain "$on_emu0" HMREG_EMU_VERBS=fail=ibv_alloc_pd:3:ENOMEM
provokes nic-gone "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EIO

# ---- registration ----

provokes regions-full "$on_emu0" HMREG_EMU_VERBS=indirect=1,max_mr_size=4M,max_mr=8 --size 64M
provokes nic-keys "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:ENOSPC
provokes kernel-memory "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:ENOMEM
provokes cgroup "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EAGAIN
provokes open-files "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EMFILE
provokes forbidden "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EPERM
provokes too-long "$on_emu0" HMREG_EMU_VERBS=max_mr_size=64K
provokes rights "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EOPNOTSUPP
provokes range-refused "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:EINVAL
provokes unexplained "$on_emu0" HMREG_EMU_VERBS=fail=ibv_reg_mr_iova2:-1:33

# ---- transfer and end ----

provokes no-address "$on_emu0" HMREG_EMU_VERBS=bind=0
provokes no-connections "$on_emu0" HMREG_EMU_VERBS=transport=other
provokes cm-broken "$on_emu0" HMREG_EMU_VERBS=fail=rdma_create_event_channel:-1:EIO
provokes cm-permission "$on_emu0" HMREG_EMU_VERBS=fail=rdma_create_event_channel:-1:EACCES
provokes no-endpoint "$on_emu0" HMREG_EMU_VERBS=fail=ibv_create_cq:-1:ENOMEM
provokes local-key "$on_emu0" HMREG_EMU_VERBS=null=1
provokes remote-access "$on_emu0" HMREG_EMU_VERBS=lose=3
provokes unreachable "$on_emu0" HMREG_EMU_VERBS=fail=rdma_connect:-1:EIO
provokes peer-lost "$on_emu0" HMREG_EMU_VERBS=fail=ibv_poll_cq:-1:EIO
provokes device-copy "$on_cuda" EMU_CUDA_FAIL=cuMemcpyAsync:1:999+ --nic sw-verbs --iface cuda
provokes data-lost "$on_cuda" HMREG_EMU_VERBS=lose=1 --iface cuda
provokes data-astray "$on_emu0" HMREG_EMU_VERBS=lose=2
provokes transport "$on_emu0" HMREG_EMU_VERBS=fail=ibv_post_send:-1:ENOMEM
# What the driver refuses to end stays, for who looks for leaks at the end.
provokes close-refused "$on_emu0" ASAN_OPTIONS=detect_leaks=0 HMREG_EMU_VERBS=fail=ibv_dereg_mr:-1:EBUSY

# ---- the table ----

each_is_provoked()
{
	sed -n 's/^ *provokes \([a-z0-9-]*\).*/\1/p' "$here/../vm/guest/check.sh" | cat - "$provoked" |
		LC_ALL=C sort -u >"$scratch/have"
	cut -f 2 "$table" | LC_ALL=C sort -u >"$scratch/want"
	diff "$scratch/want" "$scratch/have"
}

# The project's own bar is 40.
there_are_enough()
{
	count=$(cut -f 2 "$table" | LC_ALL=C sort -u | wc -l)
	echo "$count causes"
	[ "$count" -ge 40 ] && [ "$count" -eq "$(cut -f 1 "$table" | sort -u | wc -l)" ] &&
		! awk -F '\t' '$1 < 1 || $1 > 125 || NF != 5 || $4 == "" || $5 == ""' "$table" | grep .
}

list_is_json()
{
	"$tool" --list --json >"$scratch/out" && grep -q '"cause": "memlock"' "$scratch/out" || return 1
	command -v python3 >/dev/null 2>&1 || return 0
	python3 -m json.tool "$scratch/out" >/dev/null
}

attempt check_each_cause_is_provoked each_is_provoked
attempt check_there_are_enough_causes there_are_enough
attempt check_list_is_json list_is_json
printf '%d passed, %d failed; %d causes provoked here\n' "$passed" "$failed" "$(sort -u "$provoked" | wc -l)"
[ "$failed" -eq 0 ]
