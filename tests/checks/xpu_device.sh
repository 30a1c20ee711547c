#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma/fi_xpu_device.h by the compilers of devices: every call, at several levels of optimisation, without a warning, and what
# comes out is looked at.  What is not installed is left out, with a word.
# Usage: xpu_device.sh c|cuda|hip|sycl
#
#   c	  objects of C11 and C++17 that need nothing of any library
#   cuda	  nvcc ($NVCC, in PATH or in /usr/local/cuda) to PTX and to machine code for sm_80 and sm_90; clang to PTX
#   hip	  clang to AMD's assembler; hipcc (Debian has it) with HIP's own headers, both sides
#   sycl	  clang as a SYCL device, and g++, over a declaration of what the header uses
set -u

here=$(cd "$(dirname "$0")" && pwd)
include=$(cd "$here/../../include" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
calls=$here/xpu_calls.c
warnings="-Wall -Wextra -Wshadow -Wconversion -Werror"
kernel='-DKERNEL=extern "C" __attribute__((global)) void'
passed=0
failed=0

note()
{
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL  %s\n' "$2"
		[ -s "$work/log" ] && head -n 8 "$work/log" | sed 's/^/      /'
	fi
}

# try NAME COMMAND...: the command must succeed.
try()
{
	name=$1
	shift
	"$@" >"$work/log" 2>&1
	note $? "$name"
}

# fails NAME PATTERN COMMAND...: the command must fail, and say why.
fails()
{
	name=$1 pattern=$2
	shift 2
	! "$@" >"$work/log" 2>&1 && grep -Eq "$pattern" "$work/log"
	note $? "$name: does not fail with $pattern"
}

# has NAME FILE PATTERN, lacks NAME FILE PATTERN: of lines.
has()
{
	: >"$work/log"
	grep -Eq "$3" "$2"
	note $? "$1: no $3"
}

lacks()
{
	if grep -E "$3" "$2" >"$work/log" 2>&1; then
		note 1 "$1: $3"
	else
		note 0 "$1"
	fi
}

installed()
{
	command -v "$1" >/dev/null 2>&1 || {
		printf '%s is not installed: left out\n' "$1"
		return 1
	}
}

# A device that is made of processors says who its threads are before the header, and all of it.
threads_told_of()
{
	include_header='#include <rdma/fi_xpu_device.h>'
	printf '%s\n' "$include_header" '#define HMREG_XPU_RANK(scope) 0' "$include_header" >"$work/late.c"
	fails "$1: threads that are told of too late" 'error.*too late' "$1" -I"$include" -fsyntax-only "$work/late.c"
	printf '%s\n' '#define HMREG_XPU_RANK(scope) 0' "$include_header" >"$work/half.c"
	fails "$1: threads that are told of by half" 'error.*HMREG_XPU_SYNC' "$1" -I"$include" -fsyntax-only "$work/half.c"
}

in_c()
{
	for cc in gcc clang; do
		installed $cc || continue
		threads_told_of $cc
		for level in -O0 -O2 -O3 -Os; do
			for language in "c -std=c11" "c++ -std=c++17"; do
				# shellcheck disable=SC2086
				try "$cc $level -x $language" $cc -x $language $level $warnings -Wcast-qual \
					-ffreestanding -fno-stack-protector -DSMALL_ENTRIES -I"$include" -c -o "$work/o" "$calls"
				nm -u "$work/o" >"$work/undefined"
				lacks "$cc $level -x $language needs nothing" "$work/undefined" .
			done
		done
	done
}

# What PTX must say: loads and stores of words that are shared with the host are ordered for the system; a read-modify-write
# is never on the bus; nothing is called or kept in a thread's memory.
look_at_ptx()
{
	has "$1" "$2" 'ld\.acquire\.sys\.u64'
	has "$1" "$2" 'st\.release\.sys\.u64'
	has "$1" "$2" 'atom\.relaxed\.gpu\.cas\.b64'
	has "$1" "$2" 'barrier\.sync'
	has "$1" "$2" 'vote\.sync'
	lacks "$1" "$2" '^[^/]*(atom|red)\.[a-z_.]*sys'
	lacks "$1" "$2" '^[^/]*(call|\.extern)[ \t(]'
}

by_nvcc()
{
	cp "$calls" "$work/calls.cu"
	for std in c++11 c++20; do
		try "nvcc -std=$std, with its host's side" "$nvcc" -std=$std -arch=sm_80 -Werror all-warnings \
			-Xcompiler -Wall,-Wextra "$kernel" -I"$include" -c -o "$work/o" "$work/calls.cu"
	done
	try "nvcc -G, unoptimised" "$nvcc" -G -arch=sm_90 -cubin "$kernel" -I"$include" -o "$work/cubin" "$work/calls.cu"
	for arch in 80 90; do
		try "nvcc sm_$arch to PTX" "$nvcc" -arch=sm_$arch -ptx "$kernel" -I"$include" \
			-o "$work/nvcc.ptx" "$work/calls.cu"
		look_at_ptx "nvcc sm_$arch" "$work/nvcc.ptx"
		try "nvcc sm_$arch to machine code" "$nvcc" -arch=sm_$arch -cubin -Xptxas -v "$kernel" -I"$include" \
			-o "$work/cubin" "$work/calls.cu"
		# A request is made in registers.
		cp "$work/log" "$work/ptxas"
		has "nvcc sm_$arch" "$work/ptxas" "Compiling entry function .write_by_device. for .sm_$arch"
		lacks "nvcc sm_$arch: memory of a thread" "$work/ptxas" '[1-9][0-9]* bytes (stack|spill)'
		readelf -h "$work/cubin" >"$work/header" 2>&1
		has "nvcc sm_$arch: machine code" "$work/header" 'NVIDIA CUDA'
	done
}

by_clang_for_nvidia()
{
	for arch in 70 80; do
		# shellcheck disable=SC2086
		try "clang sm_$arch to PTX" clang++ -x cuda -nocudainc -nocudalib --cuda-device-only \
			--cuda-gpu-arch=sm_$arch $warnings -Wno-unknown-cuda-version -ffreestanding -O2 -S "$kernel" \
			-I"$include" -o "$work/clang.ptx" "$calls"
		look_at_ptx "clang sm_$arch" "$work/clang.ptx"
	done
}

in_cuda()
{
	nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
	if installed "$nvcc"; then
		"$nvcc" --version | sed -n 's/^Cuda compilation tools, /nvcc: /p'
		by_nvcc
	fi
	if installed clang++; then
		by_clang_for_nvidia
	fi
}

look_at_amd()
{
	has "$1" "$2" 's_barrier'
	has "$1" "$2" 'flat_atomic_cmpswap_x2'
	lacks "$1: nothing is called" "$2" 's_swappc|s_setpc'
}

by_clang_for_amd()
{
	for arch in gfx906 gfx90a gfx1030; do
		# shellcheck disable=SC2086
		try "clang $arch" clang++ -x hip -nogpuinc -nogpulib --offload-arch=$arch --cuda-device-only \
			$warnings -ffreestanding -O2 -S "$kernel" -I"$include" -o "$work/$arch.s" "$calls"
		look_at_amd "clang $arch" "$work/$arch.s"
	done
	# Where the cache of the device is not the system's, it is written back, and emptied.
	has "clang gfx90a: release, system" "$work/gfx90a.s" 'buffer_wbl2'
	has "clang gfx90a: acquire, system" "$work/gfx90a.s" 'buffer_invl2'
	# shellcheck disable=SC2086
	try "clang, the host's side" clang++ -x hip -nogpuinc -nogpulib --offload-arch=gfx906 --cuda-host-only \
		$warnings -ffreestanding -fsyntax-only -I"$include" "$calls"
}

# With HIP's own headers before, and on to machine code with the program of the host's around it.
by_hipcc()
{
	"$hipcc" --version 2>/dev/null | sed -n 's/^HIP version: /hipcc: /p'
	cp "$calls" "$work/calls.hip"
	for arch in gfx906 gfx90a gfx1030; do
		set -- "$hipcc" --offload-arch=$arch -O2 -include hip/hip_runtime.h "$kernel" -I"$include"
		# shellcheck disable=SC2086
		try "hipcc $arch, both sides" "$@" $warnings -c -o "$work/o" "$work/calls.hip"
		try "hipcc $arch to assembler" "$@" --cuda-device-only -S -o "$work/$arch.s" "$work/calls.hip"
		look_at_amd "hipcc $arch" "$work/$arch.s"
	done
}

in_hip()
{
	if installed clang++; then
		by_clang_for_amd
	fi
	hipcc=${HIPCC:-hipcc}
	if installed "$hipcc"; then
		by_hipcc
	fi
}

in_sycl()
{
	others="-D__atomic_load_n=OTHER -D__atomic_store_n=OTHER -D__atomic_fetch_add=OTHER -D__asm__=OTHER"
	if installed clang++; then
		# shellcheck disable=SC2086
		try "clang, SYCL device" clang++ -x c++ -std=c++17 -Xclang -fsycl-is-device -Xclang -sycl-std=2020 \
			-target spir64 -ffreestanding $others $warnings -I"$here" -I"$include" -fsyntax-only "$calls"
	fi
	for cc in g++ clang++; do
		installed $cc || continue
		# shellcheck disable=SC2086
		try "$cc, as SYCL's device" $cc -x c++ -std=c++17 -D__SYCL_DEVICE_ONLY__=1 $warnings -O2 \
			-ffreestanding -fno-stack-protector -I"$here" -I"$include" -c -o "$work/o" "$calls"
		# All that touches memory of both sides, or meets, is SYCL's.
		nm -uC "$work/o" >"$work/undefined"
		has "$cc: barriers are SYCL's" "$work/undefined" 'sycl::group_barrier'
		has "$cc: orders are SYCL's" "$work/undefined" 'sycl::atomic_ref<unsigned long'
		sed -i '/sycl::/d' "$work/undefined"
		lacks "$cc needs nothing but SYCL" "$work/undefined" .
	done
}

case ${1:-} in
c | cuda | hip | sycl) "in_$1" ;;
*)
	echo "usage: $0 c|cuda|hip|sycl" >&2
	exit 2
	;;
esac
if [ $((passed + failed)) -eq 0 ]; then
	echo "[  SKIPPED ] xpu_device $1: no compiler for it is installed"
	exit 77
fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
