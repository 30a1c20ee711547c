#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The guide's pictures show the steps that the library takes: their traces are made anew, over the emulated drivers.
# Usage: pictures.sh GUIDE-SCENES ACCELERATORS VERBS [--write]    --write: draw doc/*.svg from new traces
set -u
scenes=$1 accel=$2 verbs=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
make=$root/doc/make_pictures.py
. "$root/tests/attempt.sh"
names="registration cache parts device"
unset FI_HMEM FI_HMEM_DISABLE_P2P FI_LOG_PROV FI_LOG_SUBSYS HMREG_VERBS_DEVICES HMREG_VERBS_ENABLE HMREG_EMU_VERBS

if ! command -v python3 >/dev/null 2>&1; then
	echo "[  SKIPPED ] pictures: no python3"
	exit 77
fi
for library in "$accel/cuda/libcuda.so.1" "$verbs/libibverbs.so.1"; do
	[ -e "$library" ] || {
		echo "[  SKIPPED ] pictures: no emulated driver $library"
		exit 77
	}
done

# trace NAME: what the library, the drivers and the program said, in their order.
trace()
{
	EMU_TRACE=1 EMU_ACCEL_MEMFD=1 FI_LOG_LEVEL=debug FI_MR_CACHE_MONITOR=memhooks \
		LD_LIBRARY_PATH="$accel/cuda:$verbs" timeout 120 "$scenes" "$1" 2>"$scratch/$1.trace" && return
	grep -v '^emu:' "$scratch/$1.trace" | tail -n 20
	return 1
}

# The steps of the picture, as its description has them.
drawn()
{
	sed -n '/^<desc>$/,/<\/desc>$/p' "$root/doc/$1.svg" | sed '1d; s/<\/desc>$//; /^$/d; s/&gt;/>/g; s/&lt;/</g; s/&amp;/\&/g'
}

steps_are_drawn()
{
	trace "$1" && python3 -B "$make" --steps "$scratch/$1.trace" >"$scratch/steps" &&
		drawn "$1" >"$scratch/drawn" && [ -s "$scratch/drawn" ] || return 1
	diff "$scratch/drawn" "$scratch/steps" || {
		echo "these steps are new: look at the guide, and draw anew with --write"
		return 1
	}
}

as_the_script_draws()
{
	mkdir -p "$scratch/svg" && python3 -B "$make" "$scratch" "$scratch/svg" || return 1
	for name in $names; do
		diff "$root/doc/$name.svg" "$scratch/svg/$name.svg" || return 1
		python3 -B -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' \
			"$root/doc/$name.svg" || return 1
	done
}

# A step less, one more, and two in another order are seen; other times, processes and counts of looks are not.
changes_are_seen()
{
	mkdir -p "$scratch/changed"
	with()
	{
		sed "$1" "$scratch/registration.trace" >"$scratch/changed/registration.trace"
		cmp -s "$scratch/registration.trace" "$scratch/changed/registration.trace" && return 2
		python3 -B "$make" --steps "$scratch/changed/registration.trace" >"$scratch/changed/steps" 2>&1
		drawn registration | diff - "$scratch/changed/steps" >/dev/null
	}
	with '/:cuMemGetHandleForAddressRange$/d'
	[ $? -eq 1 ] || return 1
	with 's/^\(emu:verbs:.*:\)ibv_reg_dmabuf_mr$/&\n\1ibv_advise_mr/'
	[ $? -eq 1 ] || return 1
	with 's/:ibv_reg_dmabuf_mr$/:swapped/; s/:ibv_dereg_mr$/:ibv_reg_dmabuf_mr/; s/:swapped$/:ibv_dereg_mr/'
	[ $? -eq 1 ] || return 1
	with 's/^hmreg:[0-9]*:[0-9]*:/hmreg:1:2:/'
}

for name in $names; do
	if [ "${4:-}" = --write ]; then
		trace "$name" || exit 1
	else
		attempt "picture_of_$name" steps_are_drawn "$name"
	fi
done
if [ "${4:-}" = --write ]; then
	python3 -B "$make" "$scratch" "$root/doc"
	exit
fi
attempt pictures_as_the_script_draws as_the_script_draws
attempt pictures_changes_are_seen changes_are_seen
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
