#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# clang has no warning about any C source of the samples and the tests that tests/run.sh builds with gcc alone.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v clang >/dev/null 2>&1; then
	echo "[  SKIPPED ] clang: it is not installed"
	exit 77
fi
folders="samples tests/bench tests/conformance tests/hmem tests/stress tests/vm"
# Several at once, each process a few of them.  What is for the kernel, or for one libibverbs, is left out.  Paths
# that the build gives are not looked at.
# shellcheck disable=SC2046,SC2086
if find $folders -name '*.c' ! -name 'rxe_*.c' -print0 | xargs -0 -n 12 -P "$(nproc)" \
	clang -fsyntax-only -std=c11 -D_GNU_SOURCE -I. -Iinclude '-DFRESH_OBJECT=""' $(pkg-config --cflags cmocka) \
	-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror; then
	echo "[       OK ] clang"
else
	echo "[  FAILED  ] clang"
	exit 1
fi
