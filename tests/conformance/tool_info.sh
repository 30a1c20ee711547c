#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-info tells what fi_getinfo has, in both forms, and why a device cannot be used.
# Usage: tool_info.sh HMREG-INFO [DEVICE]   DEVICE: an emulated one, which is there, too
set -u
tool=$1 device=${2:-}
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL

# told STATUS PATTERN ARGUMENTS...: this exit status, and the pattern on standard error.
told()
{
	want=$1 pattern=$2
	shift 2
	"$tool" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] && grep -q -- "$pattern" "$scratch/err"
}

lists_every_profile()
{
	"$tool" >"$scratch/out" || return 1
	for name in sw-scalable sw-verbs sw-strict sw-any $device; do
		grep -qx "$name" "$scratch/out" || {
			echo "$name is not listed"
			return 1
		}
	done
	grep -q '^  mr_mode needed  *LOCAL VIRT_ADDR ALLOCATED PROV_KEY$' "$scratch/out" &&
		grep -q '^  caps on request .*\bXPU\b' "$scratch/out" &&
		grep -q '^  XPU contexts  *[1-9]' "$scratch/out"
}

shows_one()
{
	"$tool" -v -d sw-strict >"$scratch/out" || return 1
	[ "$(grep -c '^[a-z]' "$scratch/out")" -eq 1 ] && grep -q 'fi_domain_attr:' "$scratch/out"
}

# Valid, and a string is a string whatever the variable holds.
json_is_valid()
{
	"$tool" --json >"$scratch/out" || return 1
	[ "$(grep -c '"domain": "sw-' "$scratch/out")" -eq 4 ] && grep -q '"max_xpu_ctx_cnt": [1-9]' "$scratch/out" ||
		return 1
	printf 'a"b\\\001\377\303\244' >"$scratch/name"
	FI_LOG_PROV=$(cat "$scratch/name") "$tool" --params --json >"$scratch/params" || return 1
	grep -qF '"value": "a\"b\\\u0001\ufffdä"' "$scratch/params" || {
		grep FI_LOG_PROV "$scratch/params"
		return 1
	}
	command -v python3 >/dev/null 2>&1 || return 0
	python3 -m json.tool "$scratch/out" >"$scratch/log2" && python3 -m json.tool "$scratch/params" >"$scratch/log2"
}

params_have_values()
{
	HMREG_MR_MAX_COUNT=77 "$tool" --params >"$scratch/out" || return 1
	grep -q '^HMREG_MR_MAX_COUNT = 77 ' "$scratch/out" && grep -q '^FI_LOG_LEVEL = \[not set\]' "$scratch/out"
}

nothing_at_all()
{
	HMREG_SW_ENABLE=0 HMREG_VERBS_ENABLE=0 told 1 'no NIC can be used'
}

capabilities_are_told()
{
	"$tool" "$device" >"$scratch/out" || return 1
	for name in endpoints dma-buf zero-based on-demand prefetch 'memory windows' indirect re-registration relaxed \
		atomics shared; do
		grep -Eq "^  $name.* (yes|no)  " "$scratch/out" || {
			echo "nothing is said about $name"
			return 1
		}
	done
	HMREG_EMU_VERBS=dmabuf=0 "$tool" "$device" >"$scratch/out" || return 1
	grep -q 'why not: .*dma-buf' "$scratch/out" &&
		grep -q 'why not: .*provider has no such keys' "$scratch/out" || return 1
	FI_HMEM_DISABLE_P2P=1 "$tool" "$device" >"$scratch/out" || return 1
	grep -Eq '^  dma-buf regions +no ' "$scratch/out" &&
		grep -q 'why not: FI_HMEM_DISABLE_P2P is set' "$scratch/out" || return 1
	HMREG_EMU_VERBS=indirect=1,devx=0 "$tool" "$device" >"$scratch/out" || return 1
	grep -q 'why not: the trial failed at opening it with DEVX: ' "$scratch/out" || return 1
	HMREG_EMU_VERBS=indirect=1 "$tool" "$device" >"$scratch/out" || return 1
	grep -Eq '^  indirect keys +yes ' "$scratch/out" && ! grep -q 'why not' "$scratch/out"
}

# no_endpoints SETTING REASON: the device is shown, as one for registration alone.
no_endpoints()
{
	HMREG_EMU_VERBS=$1 "$tool" "$device" >"$scratch/out" 2>"$scratch/err" || return 1
	cat "$scratch/out" "$scratch/err"
	[ ! -s "$scratch/err" ] && grep -Eq '^  endpoints  *no  ' "$scratch/out" &&
		grep -q "why not: .*$2" "$scratch/out" && grep -q '^  regions  *65536$' "$scratch/out" &&
		! grep -q 'largest message' "$scratch/out" || return 1
	HMREG_EMU_VERBS=$1 "$tool" "$device" --json >"$scratch/out" || return 1
	grep -q '"endpoints": false' "$scratch/out" && grep -q "\"endpoints_reason\": \".*$2" "$scratch/out" &&
		grep -qF '"caps_on_request": ["HMEM"]' "$scratch/out"
}

port_down_is_told()
{
	HMREG_EMU_VERBS=port=down told 1 "$device cannot be used: .*port 1 is down" "$device"
}

no_permission_is_told()
{
	HMREG_EMU_VERBS=open=EACCES told 1 'no permission to open /dev/infiniband' "$device"
}

left_out_is_told()
{
	HMREG_VERBS_DEVICES="^$device" told 1 'left out by HMREG_VERBS_DEVICES' "$device"
}

# Host memory goes through each NIC; no accelerator is needed for that.
page_is_moved()
{
	"$tool" --check >"$scratch/out" || return 1
	for name in sw-scalable sw-verbs sw-strict sw-any $device; do
		grep -q "^  host  *$name  *right, as [a-z ]*$" "$scratch/out" || {
			echo "no page was moved by $name"
			return 1
		}
	done
}

page_is_registered_alone()
{
	HMREG_EMU_VERBS=bind=0 "$tool" --check "$device" >"$scratch/out" || return 1
	grep -q "^  host  *$device  *right, .*not transferred: the NIC has no endpoints" "$scratch/out"
}

attempt info_lists_every_profile lists_every_profile
attempt info_shows_one shows_one
attempt info_json_is_valid json_is_valid
attempt info_params_have_values params_have_values
attempt info_page_is_moved page_is_moved
attempt info_unknown_name told 1 'nosuch cannot be used: .*nosuch' -d nosuch
attempt info_nothing_at_all nothing_at_all
attempt info_unknown_option told 2 usage --nosuch
attempt info_missing_value told 2 usage -d
if [ -n "$device" ]; then
	attempt info_capabilities_are_told capabilities_are_told
	attempt info_no_address_is_told no_endpoints bind=0 'no IP address'
	attempt info_no_connections_is_told no_endpoints transport=other 'no reliable connections'
	attempt info_page_is_registered_alone page_is_registered_alone
	attempt info_port_down_is_told port_down_is_told
	attempt info_no_permission_is_told no_permission_is_told
	attempt info_left_out_is_told left_out_is_told
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
