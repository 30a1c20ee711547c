#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds the library and shows it at work: memory is registered, written, read and atomically updated
# through the interface, and every byte is checked, on each profile of the software NIC.
# Usage: samples/demo.sh [options of hmreg-rma...]
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/packages.sh

case ${1:-} in
-h | --help)
	cat <<-END
	Usage: samples/demo.sh [options of hmreg-rma...]
	Installs the Debian packages that building needs, where one is missing (as root or with sudo),
	builds the library in build/demo, and runs hmreg-rma for each profile of the software NIC.
	END
	exit 0
	;;
esac

echo "hmreg demo: looks for the compiler and CMake, builds the library in build/demo, then runs"
echo "hmreg-rma on each profile of the software NIC and checks every byte it moved."
hm_packages build || exit 1

log=build/demo.log
mkdir -p build
if ! { hm_configure release build/demo -DHMREG_BUILD_SAMPLES=ON -DHMREG_BUILD_TESTS=OFF &&
	cmake --build build/demo -j "$(hm_jobs)"; } >$log 2>&1; then
	tail -n 40 $log >&2
	echo "error: the build failed; its whole output is in $log" >&2
	exit 1
fi
echo "Built build/demo/libhmreg.so.1 and build/demo/samples/tools/hmreg-rma."

status=0
for profile in sw-scalable sw-verbs sw-strict; do
	echo
	echo "== hmreg-rma -d $profile $*"
	build/demo/samples/tools/hmreg-rma -d $profile "$@" || status=$?
done
echo
if [ $status -eq 0 ]; then
	echo "All profiles done: every byte was as expected."
else
	echo "error: hmreg-rma failed with status $status" >&2
fi
exit $status
