#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds a release and runs the benchmarks.
# Usage: tests/bench/run.sh [NAME...] [--tsv] [--device NAME] [--part NAME] [--vm] [--instructions] [--on DEVICE]
#   NAME            a benchmark program (default: all)
#   --tsv           print each figure as name<TAB>value<TAB>unit, and nothing else on standard output
#   --device NAME   verbs_bench: this RDMA device (default: the first; where there is none, the emulated
#                   one, which shows what the library itself takes); xpu_bench: this NIC domain (default:
#                   sw-scalable, and then the emulated RDMA device); multi_bench: these RDMA devices,
#                   separated by commas (default: software NICs)
#   --part NAME     verbs_bench: only registration (reg), sub-MRs (sub) or writes (write); xpu_bench: only
#                   descriptors (fetch), rings, scopes or the engine
#   --on DEVICE     xpu_bench: kernels run on this device: cpu (default), threads, cuda:0
#   --vm            verbs_bench, xpu_bench, multi_bench: in the virtual machine, on its software RDMA
#                   devices
#   --instructions  verbs_bench: instructions of a registration and close, counted by callgrind over the
#                   emulated device
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/packages.sh

known=$(sed -n '/^set(HMREG_BENCHMARKS/,/^)/s/^ *\([a-z0-9_]*\)$/\1/p' tests/bench/CMakeLists.txt)
names= tsv= device= part= vm= instructions= on=cpu
while [ $# -gt 0 ]; do
	case $1 in
	--tsv) tsv=--tsv ;;
	--vm) vm=yes ;;
	--instructions) instructions=yes ;;
	--device | --part | --on)
		if [ $# -lt 2 ]; then
			echo "error: $1 needs a name" >&2
			exit 2
		fi
		case $1 in
		--device) device=$2 ;;
		--part) part=$2 ;;
		--on) on=$2 ;;
		esac
		shift
		;;
	-h | --help)
		sed -n '/^# Builds/,/^set/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	*)
		if ! printf '%s\n' "$known" | grep -qx -e "$1"; then
			echo "error: no benchmark \"$1\"; there are:" $known >&2
			exit 2
		fi
		names="$names $1"
		;;
	esac
	shift
done
if [ -n "$vm$instructions$device$part" ]; then
	names=${names:-verbs_bench}
fi

hm_packages build >&2 || exit 1
# what cache_bench compares with; without it there are no figures of that
hm_packages bench >&2 || echo "cache_bench: UCX's cache is left out" >&2
log=build/bench.log
mkdir -p build
if ! { hm_configure release build/bench -DHMREG_BUILD_SAMPLES=OFF -DHMREG_BUILD_TESTS=OFF \
	-DHMREG_BUILD_BENCH=ON && cmake --build build/bench -j "$(hm_jobs)"; } >$log 2>&1; then
	tail -n 40 $log >&2
	echo "error: the build failed; its whole output is in $log" >&2
	exit 1
fi
programs=$PWD/build/bench/tests/bench
drivers=$PWD/build/bench/tests/drivers/verbs

# emulated SETTINGS COMMAND...: with the emulated device in place of the machine's RDMA libraries.
emulated()
{
	settings=$1
	shift
	HMREG_EMU_VERBS=$settings LD_LIBRARY_PATH=$drivers "$@"
}

# counted KIND: instructions of 1000 rounds.
counted()
{
	emulated null=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		--toggle-collect=count_rounds "$programs/verbs_bench" --count "$1" 1000 2>&1 |
		sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

# show NAME VALUE UNIT
show()
{
	if [ -n "$tsv" ]; then
		printf '%s\t%s\t%s\n' "$@"
	else
		printf '%-44s %12s %s\n' "$@"
	fi
}

count_instructions()
{
	if ! command -v valgrind >/dev/null 2>&1; then
		echo "error: instructions are counted by valgrind, which is not installed" >&2
		return 1
	fi
	raw=$(counted raw) ours=$(counted hmreg)
	[ -n "$raw" ] && [ -n "$ours" ] || return 1
	for figure in "raw $raw" "hmreg $ours" "added $((ours - raw))"; do
		show "verbs_reg_close_instructions.emu0.4KiB.${figure% *}" \
			"$(echo "${figure#* }" | awk '{ printf "%.2f", $1 / 1000 }')" instructions
	done
}

# On real devices where there are some; the emulated one registers nothing when registration is timed.
verbs_bench()
{
	if [ -n "$instructions" ]; then
		count_instructions
	elif [ -n "$vm" ]; then
		# room for the base of sub-MRs; and one processor, since the emulation of several takes turns,
		# so that the driver's threads wait for the one that waits for them
		tests/vm/run.sh --timeout 1500 --memory 1800 --processors 1 -- "$programs/verbs_bench" $tsv \
			--device "${device:-rxe0}" --part "${part:-all}" --large 1024
	elif [ -n "$device" ] || [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
		"$programs/verbs_bench" $tsv ${device:+--device "$device"} --part "${part:-all}" \
			--large 1024
	else
		echo "verbs_bench: no RDMA device here: the emulated one is used" >&2
		for one in reg sub write; do
			case ${part:-all} in
			all | $one) ;;
			*) continue ;;
			esac
			settings=
			[ $one != reg ] || settings=null=1
			emulated "$settings" "$programs/verbs_bench" $tsv --part $one || return 1
		done
	fi
}

# Each interface alone over its emulated driver, since a pointer is asked of all that there are; dma-bufs
# are registered on the emulated RDMA device.  Then over what drivers the machine has.
hmem_bench()
{
	for interface in cuda rocr ze neuron synapseai; do
		accel=$PWD/build/bench/tests/drivers/accel/$interface
		if ! ls "$accel"/lib*.so* >/dev/null 2>&1; then
			echo "hmem_bench: no emulated driver of $interface" >&2
			continue
		fi
		HMREG_EMU_VERBS=null=1 FI_HMEM=$interface LD_LIBRARY_PATH=$accel:$drivers \
			ZE_ENABLE_ALT_DRIVERS=libze_emu.so.1,libze_emu2.so.1 "$programs/hmem_bench" $tsv ||
			return 1
	done
	"$programs/hmem_bench" $tsv # what this machine has, which may be nothing
}

# On the software NIC, then on an RDMA device that takes next to no time.
xpu_bench()
{
	xpu="$programs/xpu_bench $tsv --on $on --part ${part:-all}"
	if [ -n "$vm" ]; then
		tests/vm/run.sh --devices wires --timeout 1500 -- $xpu --device "${device:-rxe0}"
	elif [ -n "$device" ]; then
		$xpu --device "$device"
	else
		$xpu && { [ ! -e "$drivers" ] || emulated "" $xpu --device emu0; }
	fi
}

# Software NICs; in the virtual machine its two RDMA devices, on as many processors.
multi_bench()
{
	if [ -n "$vm" ]; then
		tests/vm/run.sh --devices wires --timeout 1500 --memory 1800 --processors 2 -- \
			"$programs/multi_bench" $tsv --device rxe0 --device rxe1
	elif [ -n "$device" ]; then
		"$programs/multi_bench" $tsv $(echo "$device" | sed 's/^/--device /; s/,/ --device /g')
	else
		"$programs/multi_bench" $tsv
	fi
}

status=0
for name in ${names:-$known}; do
	case $name in
	verbs_bench) verbs_bench ;;
	hmem_bench) hmem_bench ;;
	multi_bench) multi_bench ;;
	xpu_bench) xpu_bench ;;
	*) "$programs/$name" $tsv ;;
	esac || {
		status=1
		echo "error: $name failed" >&2
	}
done
exit $status
