#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The completion for bash offers the options that the tools' --help lists, the values that they take, and the NIC
# domains that are there.
# Usage: completion.sh FOLDER-OF-TOOLS
set -u
tools=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.." || exit 1
. tests/attempt.sh
. samples/tools/completion/hmreg.bash

# help TOOL: an option a line, with a mark behind those that take something.
help()
{
	"$tools/$1" --help | sed -n 's/^  \{1,6\}\(-.*\)/\1/p' | sed 's/   *[a-z].*//' | tr ',' '\n' |
		awk '/^ *-/ { options[++n] = $1; takes[n] = NF > 1 && $2 !~ /^list/ }
		END { for (i = 1; i <= n; i++) print options[i], takes[i] || (i < n && takes[i + 1] && options[i] ~ /^-.$/) }'
}

# offered WORD... with the cursor at the last one
offered()
{
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_hmreg "$1"
	printf '%s\n' "${COMPREPLY[@]}"
}

options()
{
	help "$1" | cut -d ' ' -f 1 | LC_ALL=C sort >"$scratch/help"
	[ -s "$scratch/help" ] || return 1
	offered "$tools/$1" - | LC_ALL=C sort | diff "$scratch/help" -
}

# What --help gives a value, and nothing else, is completed with values or not at all.
values()
{
	local option takes typed=

	while read -r option takes; do
		if _hmreg_value "$tools/$1" "$option"; then
			[ "$takes" -eq 1 ] || { echo "$option takes nothing" && return 1; }
		else
			[ "$takes" -eq 0 ] || { echo "$option takes a value" && return 1; }
		fi
	done < <(help "$1")
}

kinds()
{
	"$tools/hmreg-check" --help | sed '1,/^KIND is/d; /^$/,$d' | awk '{ print $1 }' | LC_ALL=C sort >"$scratch/help"
	[ -s "$scratch/help" ] || return 1
	offered "$tools/hmreg-check" "" | LC_ALL=C sort | diff "$scratch/help" -
}

interfaces()
{
	"$tools/hmreg-check" --help | sed -n 's/^ *--iface NAME *\(.*\); default.*/\1/p' | tr -d ' ' | tr , '\n' >"$scratch/help"
	[ -s "$scratch/help" ] || return 1
	offered "$tools/hmreg-check" --iface "" | diff "$scratch/help" -
}

operations()
{
	"$tools/hmreg-rma" --help | sed -n 's/^ *--ops LIST *any of \([a-z,]*\) .*/\1/p' | tr , '\n' >"$scratch/help"
	[ -s "$scratch/help" ] || return 1
	offered "$tools/hmreg-rma" --ops "" | diff "$scratch/help" - || return 1
	[ "$(offered "$tools/hmreg-rma" --ops write,)" = "write,read
write,atomic" ]
}

domains()
{
	"$tools/hmreg-rma" list | awk 'NR > 1 { print $1 }' | LC_ALL=C sort -u >"$scratch/list"
	[ -s "$scratch/list" ] || return 1
	for tool in hmreg-info hmreg-rma; do
		offered "$tools/$tool" -d "" | LC_ALL=C sort -u | diff "$scratch/list" - || return 1
	done
	offered "$tools/hmreg-check" --nic sw-v | grep -qx sw-verbs
}

for tool in hmreg-info hmreg-check hmreg-rma; do
	attempt "completion_options_$tool" options $tool
	attempt "completion_values_$tool" values $tool
done
attempt completion_kinds kinds
attempt completion_interfaces interfaces
attempt completion_operations operations
attempt completion_domains domains
[ "$failed" -eq 0 ]
