#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds the library and shows it at work: memory is registered, written, read and atomically updated
# through the interface, and every byte is checked, on three profiles of the software NIC.
# Usage: samples/demo.sh [options of hmreg-rma...]
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/packages.sh

tool=build/demo/samples/tools/hmreg-rma
log=build/demo.log
profiles="sw-scalable sw-verbs sw-strict"

usage()
{
	cat <<-END
	Usage: samples/demo.sh [options of hmreg-rma...]
	Installs the Debian packages that building needs, where one is missing (as root or with sudo),
	builds the library in build/demo, and runs hmreg-rma on the profiles sw-scalable, sw-verbs and
	sw-strict of the software NIC.

	Options, which hmreg-rma gets as they are:
	  NAME, -d NAME        run on this NIC domain only: one of these profiles, sw-any, or an RDMA
	                       device as \`hmreg-info' names it
	  --min SIZE           smallest transfer in bytes, with suffix K, M or G (default 1)
	  --max SIZE           largest transfer (default 16M)
	  --iters N            iterations per size
	  --ops LIST           any of write,read,atomic
	  --json               print a JSON array with one object for each profile, and nothing else;
	                       the other messages of this script go to standard error
	  --server, --client HOST, --port P, --bind ADDRESS, --loop, --timeout S, --dmabuf
	                       two processes over an RDMA device; the target's memory as a dma-buf
	  --iface KIND[:DEVICE], --local-iface KIND[:DEVICE]
	                       the target's, or the initiator's, memory is of an accelerator, as in cuda:1
	  -q, --no-progress, -l, -V
	After the first run, "$tool --help" explains each;
	so does the manual page man/hmreg-rma.1.
	END
}

# Sets json (an array is wanted), once (one run will do: a profile is named, or none is used) and
# moves (bytes will be).
read_options()
{
	json="" once="" value="" moves=yes
	for word in "$@"; do
		if [ -n "$value" ]; then
			value=""
			continue
		fi
		case $word in
		-h | --h | --he | --hel | --help)
			usage
			exit 0
			;;
		-d | --d | --de | --dev | --devi | --devic | --device) once=yes value=yes ;;
		-d* | --d*=*) once=yes ;;
		--j*) json=${json:-yes} ;;
		--se*) once=yes ;;
		--c*=*) once=yes ;;
		--c*) once=yes value=yes ;;
		-l | --li* | list) once=yes moves="" ;;
		-V | --v*) once=yes moves="" json=no ;;
		--*=*) ;;
		--b* | --if* | --it* | --loc* | --mi* | --ma* | --o* | --p* | --t*) value=yes ;;
		-*) ;;
		*) once=yes ;;
		esac
	done
	[ "$json" != no ] || json=""
}

# What is no result: to standard error where the result is to be read by a program.
tell()
{
	if [ -n "$json" ]; then
		echo "$@" >&2
	else
		echo "$@"
	fi
}

build()
{
	mkdir -p build
	if ! { hm_configure release build/demo -DHMREG_BUILD_SAMPLES=ON -DHMREG_BUILD_TESTS=OFF &&
		cmake --build build/demo -j "$(hm_jobs)"; } >$log 2>&1; then
		tail -n 40 $log >&2
		echo "error: the build failed; its whole output is in $log" >&2
		exit 1
	fi
	tell "Built build/demo/libhmreg.so.1 and $tool."
}

# run OPTIONS...: hmreg-rma; its objects become elements of the array.
run()
{
	if [ -z "$json" ]; then
		"$tool" "$@" || status=$?
		return
	fi
	document=$("$tool" "$@") || status=$?
	# "list" has an array of its own.
	case $document in
	"") return ;;
	"["*) document=$(printf '%s\n' "$document" | sed '1d;$d') ;;
	esac
	printf '%s\n%s' "$separator" "$document"
	separator=,
}

read_options "$@"
tell "hmreg demo: looks for the compiler and CMake, builds the library in build/demo, then runs"
tell "hmreg-rma on the software NIC and checks every byte it moved."
if [ -n "$json" ]; then
	hm_packages build >&2 || exit 1
else
	hm_packages build || exit 1
fi
build

status=0 separator=""
[ -z "$json" ] || printf '['
if [ -n "$once" ]; then
	tell
	tell "== hmreg-rma $*"
	run "$@"
else
	for profile in $profiles; do
		tell
		tell "== hmreg-rma -d $profile $*"
		run -d "$profile" "$@"
	done
fi
[ -z "$json" ] || printf '\n]\n'
tell
if [ $status -eq 0 ]; then
	tell "Done${moves:+: every byte was as expected}."
else
	echo "error: hmreg-rma failed with status $status" >&2
fi
exit $status
