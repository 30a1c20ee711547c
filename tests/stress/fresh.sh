#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs a program over another allocator: tests/stress/fresh.sh ALLOCATOR PROGRAM ARGUMENTS...
#   ALLOCATOR  jemalloc, mimalloc, tcmalloc, tcmalloc_minimal, or a preloaded object by its path
# Exit status 77, with the reason: the allocator's Debian package is not installed.
set -u
. "$(dirname "$0")/../packages.sh"

allocator=$1
shift
case $allocator in
jemalloc) library=libjemalloc.so.2 package=libjemalloc2 ;;
mimalloc) library=libmimalloc.so.2.0 package=libmimalloc2.0 ;;
tcmalloc) library=libtcmalloc.so.4 package=libgoogle-perftools4 ;;
tcmalloc_minimal) library=libtcmalloc_minimal.so.4 package=libtcmalloc-minimal4 ;;
/*)
	exec env LD_PRELOAD="$allocator" HMREG_FRESH_INTERPOSER=1 "$@"
	;;
*)
	echo "error: no allocator \"$allocator\"" >&2
	exit 2
	;;
esac
file=$(hm_library "$library") || {
	echo "skipped: no $library; Debian's package is $package"
	exit 77
}
# tcmalloc would move the end of the data segment while this program does.
exec env TCMALLOC_SKIP_SBRK=1 LD_PRELOAD="$file" HMREG_FRESH_ALLOCATOR="$library" "$@"
