#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Checks accelerator memory on a real NVIDIA driver, with no RDMA device: builds in build/gpu, runs
# everything of FI_HMEM_CUDA on the software NIC, and kernels that start transfers, prints one table.  Under 3 minutes.
# Usage: tests/gpu/run.sh
# Takes an NVIDIA driver, gcc, CMake 3.25, make or ninja, and the headers of libibverbs and librdmacm (when they
# lie elsewhere, CPATH=FOLDER).  nvcc with a C++ compiler for the kernels, which are skipped without.  No CMocka;
# installs nothing and uses no network.
# Exit status: 0 all is right, 1 something is not, 77 it cannot be checked here, and why.
# Environment: HMREG_GPU_EMULATED=1 runs over the emulated driver of tests/drivers, which tries this script and
# tells nothing about hardware.  HMREG_GPU_SECONDS=N is the limit (170).  HMREG_JOBS, HMREG_WERROR: see tests/run.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/packages.sh

build=build/gpu
results=$build/results
limit=${HMREG_GPU_SECONDS:-170}
emulated=${HMREG_GPU_EMULATED:-}
start=$(date +%s)
passed=0 failed=0 skipped=0

case ${1:-} in
"") ;;
-h | --help)
	sed -n '/^# Checks/,/^set/s/^# \{0,1\}//p' "$0"
	exit 0
	;;
*)
	echo "error: \"$1\" is no option; see --help" >&2
	exit 2
	;;
esac

cannot()
{
	echo "GPU check: skipped: $*"
	exit 77
}

# ---- what is there ----

cmake_too_old()
{
	cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] < 3 || (v[1] == 3 && v[2] < 25)) }'
}

# What the build takes and this machine lacks; ninja will do in place of make.
missing_tools()
{
	for package in $(hm_missing build); do
		case $package in
		make) command -v ninja >/dev/null 2>&1 || echo "make" ;;
		libibverbs-dev) echo "infiniband/verbs.h (libibverbs-dev)" ;;
		librdmacm-dev) echo "rdma/rdma_cma.h (librdmacm-dev)" ;;
		*) echo "$package" ;;
		esac
	done | paste -s -d ';' | sed 's/;/, /g'
}

[ -n "$emulated" ] || [ -e /dev/nvidiactl ] ||
	cannot "no NVIDIA driver on this machine: /dev/nvidiactl is not there"
hm_scratch=$(mktemp -d)
missing=$(missing_tools)
rm -rf "$hm_scratch"
[ -z "$missing" ] || cannot "this machine lacks $missing"
! cmake_too_old || cannot "$(cmake --version | head -n 1) is here; 3.25 is needed"
command -v make >/dev/null 2>&1 || export CMAKE_GENERATOR=Ninja

# ---- build ----

targets="gpu_runner_test gpu_hmem gpu_cuda gpu_mr_hmem gpu_cache_hmem hmem_bench hmreg-rma hmreg-info
	gpu_xpu xpu_put xpu_alltoall xpu_bench"
[ -z "$emulated" ] || targets="$targets emu_cuda emu_nvml"
rm -rf $results
mkdir -p $results
# shellcheck disable=SC2086
if ! { hm_configure release $build -DHMREG_BUILD_GPU_TESTS=ON -DHMREG_WERROR="${HMREG_WERROR:-OFF}" &&
	cmake --build $build -j "$(hm_jobs)" --target $targets; } >$results/build.log 2>&1; then
	grep -E '(error|Error|undefined reference)' $results/build.log | grep -v Building | head -n 30
	echo "error: the build failed; its whole output is in $results/build.log" >&2
	exit 1
fi
built=$(($(date +%s) - start))

[ -z "$emulated" ] || export LD_LIBRARY_PATH="$PWD/$build/tests/drivers/accel/cuda"
export FI_HMEM=cuda HMREG_TEST_HMEM=cuda
unset FI_LOG_LEVEL FI_LOG_PROV FI_LOG_SUBSYS FI_PROVIDER FI_HMEM_DISABLE_P2P HMREG_TEST_DOMAIN HMREG_TEST_PEER

# ---- steps ----

# row WHAT RESULT DETAIL SECONDS
row()
{
	printf '%-42s %-10s %-34s %3d s\n' "$1" "$2" "$3" "$4" >>$results/steps
}

# How a command ended that did not end well.
ending()
{
	case $1 in
	124) echo "TIMED OUT" ;;
	1[3-9]? | 12[89]) echo "CRASHED" ;;
	*) echo "FAILED" ;;
	esac
}

# counts LOG: what its functions came to; a program that prints none has none.
counts()
{
	awk '/^\[       OK \]/ { p++ } /^\[  FAILED  \]/ { f++ } /^\[  SKIPPED \]/ { s++ }
	END { if (p + f + s) printf "%d passed, %d failed, %d skipped", p, f, s }' "$1"
}

# step NAME WHAT COMMAND...: its output goes to results/NAME.log.  77: skipped, with its last line as the reason.
step()
{
	log=$results/$1.log what=$2 began=$(date +%s)
	shift 2
	left=$((limit - (began - start)))
	if [ $left -le 0 ]; then
		row "$what" "NOT RUN" "the time of $limit s was over" 0
		failed=$((failed + 1))
		return
	fi
	timeout -k 5 $left "$@" >"$log" 2>&1
	status=$?
	took=$(($(date +%s) - began))
	detail=$(counts "$log")
	case $status in
	0)
		row "$what" "ok" "$detail" $took
		passed=$((passed + 1))
		return
		;;
	77)
		row "$what" "skipped" "$(tail -n 1 "$log" | sed 's/^skipped: //')" $took
		skipped=$((skipped + 1))
		return
		;;
	esac
	row "$what" "$(ending $status)" "${detail:-exit status $status}" $took
	failed=$((failed + 1))
	complain "$log" >>$results/trouble
}

# complain LOG: functions that failed, or broke off, with what they printed; of other programs the end.
complain()
{
	echo "---- $what: $1"
	awk '/^\[ RUN      \]/ { text = ""; open = 1 }
	{ text = text $0 "\n" }
	/^\[       OK \]/ || /^\[  SKIPPED \]/ { text = ""; open = 0 }
	/^\[  FAILED  \]/ { printf "%s", text; text = ""; open = 0; said = 1 }
	END { if (open) { printf "%s", text; said = 1 } exit !said }' "$1" || tail -n 20 "$1"
}

bin=$PWD/$build/tests/gpu
tools=$PWD/$build/samples/tools

step runner "the runner itself" "$bin/gpu_runner_test"
step cuda "exports, contexts, fds" "$bin/gpu_cuda"
if [ $skipped -gt 0 ]; then
	cannot "$(tail -n 1 $results/cuda.log | sed 's/^skipped: //')"
fi
step hmem "kinds, copies, exports" "$bin/gpu_hmem" cuda
step regions "regions, on each profile of the NIC" "$bin/gpu_mr_hmem"
step cache "kept without descriptors, freed, again" "$bin/gpu_cache_hmem"
for domain in sw-scalable sw-verbs sw-strict; do
	set -- "$tools/hmreg-rma" -d $domain --no-progress --max 256K --iters 20
	step rma.$domain.target "hmreg-rma $domain, host to GPU" "$@" --iface cuda
	step rma.$domain.source "hmreg-rma $domain, GPU to host" "$@" --local-iface cuda
	step rma.$domain.both "hmreg-rma $domain, GPU to GPU" "$@" --iface cuda --local-iface cuda
done
step info "hmreg-info --hmem" "$tools/hmreg-info" --hmem
step check "hmreg-info --check" "$tools/hmreg-info" --check
step bench "hmem_bench" "$PWD/$build/tests/bench/hmem_bench" --tsv
step xpu "kernels: every byte, scopes, rings, errors" "$bin/gpu_xpu" cuda
for domain in sw-scalable sw-strict; do
	step xpu_put.$domain "xpu_put $domain, two contexts" "$PWD/$build/samples/xpu_put" $domain cuda
	step xpu_alltoall.$domain "xpu_alltoall $domain, four contexts" "$PWD/$build/samples/xpu_alltoall" \
		$domain 4 cuda
done
step xpu_bench "xpu_bench: latency and rate" "$PWD/$build/tests/bench/xpu_bench" --tsv --on cuda

# ---- the table ----

driver()
{
	if [ -n "$emulated" ]; then
		echo "EMULATED: this tells nothing about hardware"
	elif [ -r /proc/driver/nvidia/version ]; then
		head -n 1 /proc/driver/nvidia/version
	else
		nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1
	fi
}

# figures NAME PATTERN: of a benchmark, as it printed them.
figures()
{
	[ ! -e "$results/$1.log" ] || grep -E "$2" "$results/$1.log" | awk -F'\t' '{ printf "%-58s %12s %s\n", $1, $2, $3 }'
}

report()
{
	echo "date    $(date -u +%Y-%m-%d)"
	echo "commit  $(git describe --always --dirty 2>/dev/null || echo "not in a git tree")"
	sed -n 's/^device /device  /p; s/^driver /driver  /p' $results/cuda.log 2>/dev/null
	echo "module  $(driver)"
	echo
	printf '%-36s %-8s %-16s %-16s %-7s %s\n' "export of" "way" "driver" "driver, PCIe" "library" "library, PCIe"
	sed -n 's/^kind //p' $results/cuda.log 2>/dev/null
	echo
	cat $results/steps
	echo
	sed -n 's/^ids of //p' $results/cuda.log 2>/dev/null
	echo
	figures bench '^(classify|export_64KiB|copy\..*\.8MiB)'
	figures xpu_bench '^xpu_'
	echo
	echo "built in $built s, all in $(($(date +%s) - start)) s"
}

report | tee $results/report
[ ! -s $results/trouble ] || cat $results/trouble
echo "$passed passed, $failed failed, $skipped skipped; what each said is in $results"
[ $failed -eq 0 ]
