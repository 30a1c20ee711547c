#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each public header compiles alone and twice, without a warning, in C and C++ of several ages (those for
# C++ with and without exceptions) and with each of gcc and clang that is installed; the device-side header also without the C library,
# and as CUDA and HIP where clang knows them.
# Usage: headers.sh [INCLUDE_FOLDER]    (default: the tree's own include)
set -u

here=$(cd "$(dirname "$0")" && pwd)
include=${1:-$here/../../include}
include=$(cd "$include" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# try NAME COMMAND...: the command must succeed.
try()
{
	name=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL  %s\n' "$name"
		head -n 8 "$work/log" | sed 's/^/      /'
	fi
}

# refuse NAME COMMAND...: the command must fail with a word about deprecation.
refuse()
{
	name=$1
	shift
	if ! "$@" >"$work/log" 2>&1 && grep -q deprecated "$work/log"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL  %s\n' "$name"
	fi
}

warnings="-Wall -Wextra -Wshadow -Wpedantic -Werror"

# try_headers COMPILER LANGUAGE STANDARD OPTIONS...
try_headers()
{
	cc=$1 language=$2 std=$3
	shift 3
	before=$passed
	for header in $headers; do
		printf '#include <rdma/%s>\n#include <rdma/%s>\nint abi_alone;\n' \
			"$header" "$header" >"$work/alone.c"
		# shellcheck disable=SC2086
		try "$header, $cc -std=$std" "$cc" -x "$language" -std="$std" $warnings "$@" \
			-I"$include" -fsyntax-only "$work/alone.c"
	done
	printf '%-8s -std=%-6s %d headers\n' "$cc" "$std" $((passed - before))
}

# try_cxx COMPILER STANDARD OPTIONS...: the headers that are for C++.
try_cxx()
{
	cc=$1 std=$2
	shift 2
	before=$passed
	for header in $cxx_headers; do
		printf '#include <hmreg/%s>\n#include <hmreg/%s>\nint abi_alone;\n' \
			"$header" "$header" >"$work/alone.cpp"
		# shellcheck disable=SC2086
		try "hmreg/$header, $cc -std=$std $*" "$cc" -std="$std" $warnings "$@" \
			-I"$include" -fsyntax-only "$work/alone.cpp"
	done
	printf '%-8s -std=%-6s %d headers in hmreg/ %s\n' "$cc" "$std" $((passed - before)) "$*"
}

# Old names compile in silence, and warn where the program asks for it.
try_deprecated()
{
	cc=$1 language=$2 std=$3
	cat >"$work/old.c" <<-END
		#include <rdma/fi_domain.h>
		uint64_t old_mode(void);
		uint64_t old_mode(void)
		{
			return FI_LOCAL_MR | FI_REG_MR;
		}
		int old_model(int scalable);
		int old_model(int scalable)
		{
			return scalable ? FI_MR_SCALABLE : FI_MR_BASIC;
		}
	END
	# shellcheck disable=SC2086
	try "old names, $cc" "$cc" -x "$language" -std="$std" $warnings -I"$include" \
		-fsyntax-only "$work/old.c"
	for name in FI_LOCAL_MR FI_REG_MR FI_MR_BASIC FI_MR_SCALABLE FI_MR_UNSPEC; do
		printf '#include <rdma/fi_domain.h>\nunsigned long long old = %s;\n' "$name" >"$work/old.c"
		# shellcheck disable=SC2086
		refuse "$name warns on request, $cc" "$cc" -x "$language" -std="$std" $warnings \
			-DFI_WARN_DEPRECATED -I"$include" -fsyntax-only "$work/old.c"
	done
}

# The device's header in a kernel; clang needs no toolkit to read it.
try_device()
{
	cat >"$work/kernel.cu" <<-END
		#include <rdma/fi_xpu_device.h>
		__attribute__((global)) void kernel(struct fid_xpu_ep *ep, int *result)
		{
			*result = fi_xpu_write(ep, 0, 0, 0, 0, 0, 0, 0, 0, 0, FI_XPU_WORK_ITEM);
		}
	END
	for side in host device; do
		try "fi_xpu_device.h as CUDA, $side" clang++ -x cuda -nocudainc -nocudalib \
			--cuda-gpu-arch=sm_70 --cuda-$side-only -ffreestanding -Wall -Wextra \
			-I"$include" -fsyntax-only "$work/kernel.cu"
		try "fi_xpu_device.h as HIP, $side" clang++ -x hip -nogpuinc -nogpulib \
			--offload-arch=gfx906 --cuda-$side-only -ffreestanding -Wall -Wextra \
			-I"$include" -fsyntax-only "$work/kernel.cu"
	done
}

headers=$(cd "$include/rdma" && echo *.h)
cxx_headers=$(cd "$include/hmreg" && echo *.hpp)
compilers=0
for cc in gcc clang g++ clang++; do
	if ! command -v "$cc" >/dev/null 2>&1; then
		printf '%s is not installed: left out\n' "$cc"
		continue
	fi
	compilers=$((compilers + 1))
	case $cc in
	*++)
		try_headers "$cc" c++ c++11
		try_headers "$cc" c++ c++20
		try_deprecated "$cc" c++ c++11
		try_cxx "$cc" c++17
		try_cxx "$cc" c++20
		try_cxx "$cc" c++17 -fno-exceptions -fno-rtti
		;;
	*)
		try_headers "$cc" c c99 -Wstrict-prototypes
		try_headers "$cc" c c11 -Wstrict-prototypes
		try_headers "$cc" c gnu17 -Wstrict-prototypes
		try_deprecated "$cc" c c11
		printf '#include <rdma/fi_xpu_device.h>\nint abi_alone;\n' >"$work/alone.c"
		try "fi_xpu_device.h without the C library, $cc" "$cc" -std=c11 -ffreestanding -nostdinc \
			-isystem "$("$cc" -print-file-name=include)" -Wall -Wextra -Werror \
			-I"$include" -fsyntax-only "$work/alone.c"
		;;
	esac
done
if command -v clang++ >/dev/null 2>&1; then
	try_device
fi
if [ "$compilers" -eq 0 ] || [ "$passed" -eq 0 ]; then
	failed=$((failed + 1))
	printf 'FAIL  no compiler is installed\n'
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
