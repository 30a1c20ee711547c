#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds the library in every way that is tested, and runs the tests: 25 to 45 minutes on two cores, as fast as they are.
#   release    gcc, -O2: everything, and all groups but fuzz
#   clang      clang, assertions: unit; with --soak fault, too, and unit once more under valgrind
#   asan       gcc, assertions, address and undefined-behaviour sanitizers: unit, conformance, fault, stress
#   tsan       gcc, assertions, thread sanitizer: stress
#   fuzz       clang, libFuzzer
# A build other than the release has no more in it than what its groups run, and there each program runs once on each
# NIC and each accelerator; their variants are the release's, and with --soak everybody's.
# Usage: tests/run.sh [--soak] [GROUP...]
#   GROUP   unit, conformance, fault, fuzz, stress, vm, checks, package or gpu (default: all of them; vm needs QEMU,
#           package debootstrap and root, and gpu an NVIDIA driver; each is skipped with the reason where that is
#           not to be had)
#   --soak  stress and fuzz for long, 10 minutes each program and build, and every test in every build
# Installs the Debian packages that are missing (as root or with sudo; needs no network when none is).
# Builds in build/NAME; what each test said is kept in build/test-results, for tests/coverage too.
# Environment: HMREG_WERROR=ON makes warnings errors, HMREG_JOBS=N limits how much runs at once.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/packages.sh

all_groups="unit conformance fault fuzz stress vm checks package gpu"
results=build/test-results
groups= soak= exclude=
passed=0 failed=0 skipped=0 step_number=0

usage()
{
	sed -n '/^# Usage/,/^set/s/^# \{0,1\}//p' "$0"
}

parse_options()
{
	for word in "$@"; do
		case " $all_groups " in
		*" $word "*) groups="$groups $word" && continue ;;
		esac
		case $word in
		--soak) soak=yes ;;
		-h | --help)
			usage
			exit 0
			;;
		*)
			echo "error: \"$word\" is neither a group of tests nor an option" >&2
			usage >&2
			exit 2
			;;
		esac
	done
	groups=${groups:-$all_groups}
}

# chosen GROUPS...: those of them that this run is for.
chosen()
{
	for group in "$@"; do
		case " $groups " in
		*" $group "*) printf '%s ' "$group" ;;
		esac
	done
}

now()
{
	date +%s
}

# begin TEXT: on a terminal, what runs now; say overwrites it.
begin()
{
	[ ! -t 1 ] || printf '[%2d] %-46s %-38s\r' $((step_number + 1)) "$1" "running ..."
}

# say TEXT STATUS SECONDS: one line of the step log.
say()
{
	step_number=$((step_number + 1))
	printf '[%2d] %-46s %-38s %4d s\n' $step_number "$1" "$2" "$3"
}

# targets GROUPS...: what their tests run; the checks look at everything.
targets()
{
	case " $* " in
	*" checks "*) echo all ;;
	*) printf 'tests_%s ' "$@" ;;
	esac
}

# build PRESET "TARGETS" OPTIONS...: builds these in build/PRESET.  A failed build counts as one failed test.
build()
{
	preset=$1 targets=$2
	shift 2
	start=$(now)
	log=$results/$preset.build.log
	begin "build $preset"
	# shellcheck disable=SC2086
	if hm_configure "$preset" "build/$preset" -DHMREG_WERROR="${HMREG_WERROR:-OFF}" "$@" >"$log" 2>&1 &&
		cmake --build "build/$preset" -j "$(hm_jobs)" --target $targets >>"$log" 2>&1; then
		say "build $preset" ok $(($(now) - start))
		return 0
	fi
	say "build $preset" "FAILED, see $log" $(($(now) - start))
	grep -E '(error|Error|undefined reference)' "$log" | grep -v Building | head -n 30
	failed=$((failed + 1))
	return 1
}

# outcome FILE: "passed failed skipped" of a JUnit file that ctest wrote.  A test counts as skipped
# only where it said so itself; one that could not be run has failed.
outcome()
{
	awk '
	/^\t<testcase / { failed++; if (/ status="run">?/) { passed++; failed-- } }
	/^\t\t<skipped message="SKIP_RETURN_CODE/ { skipped++; failed-- }
	END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# Of an awk program: where a line names a case behind this mark of cmocka's.
case_after='
	function case_after(mark)
	{
		return match($0, "\\[" mark "\\] [A-Za-z_][A-Za-z0-9_]*(\\[[^] ]*\\])?")
	}
'

# functions STEP GROUP JUNIT LOG: a line for each test function, as tests/coverage reads them:
# NIC, step, group, program, function, pass or fail or skip.  A program that fails after all its
# functions passed (a leak found at the end, a crash) takes them with it.  What ran on one domain of
# a NIC says so at the name's end, name[domain]; those of the software NIC start with "sw-".  What ran in
# the virtual machine and says nothing is about verbs.
functions()
{
	awk -v OFS='\t' -v step="$1" -v group="$2" "$case_after"'
	function note(result,    name)
	{
		name = substr($0, RSTART + 13, RLENGTH - 13)
		if (substr($0, RSTART + RLENGTH, 1) == ":")
			return
		if (!((program, name) in state))
			order[++n] = program SUBSEP name
		state[program, name] = result
	}
	FNR == 1 { file++ }
	file == 1 && /^\t<testcase / {
		split($0, field, "\"")
		passed[field[2]] = / status="run">?/
	}
	file == 2 && /^[0-9]+\/[0-9]+ Test: / { program = $3; next }
	file == 2 && case_after(" RUN      ") { note("fail") }
	file == 2 && case_after("       OK ") { note("pass") }
	file == 2 && case_after("  FAILED  ") { note("fail") }
	file == 2 && case_after("  SKIPPED ") { note("skip") }
	END {
		for (i = 1; i <= n; i++)
			if (state[order[i]] == "fail") {
				split(order[i], part, SUBSEP)
				explained[part[1]] = 1
			}
		for (i = 1; i <= n; i++) {
			split(order[i], part, SUBSEP)
			result = state[order[i]]
			if (result == "pass" && !passed[part[1]] && !explained[part[1]])
				result = "fail"
			nic = part[2] ~ /\[/ ? (part[2] ~ /\[sw-/ ? "sw" : "verbs") : \
				group == "vm" ? "verbs" : "sw"
			print nic, step, group, part[1], part[2], result
		}
	}' "$3" "$4" >"$results/$1.$2.tsv"
}

# explain JUNIT LOG CTEST-OUTPUT: the names of what failed, programs and their functions, and then what
# these programs printed, without the lines of functions that passed.
explain()
{
	if [ ! -s "$1" ] || [ ! -s "$2" ]; then
		cat "$3"
		return
	fi
	awk "$case_after"'
	function failed_function(name)
	{
		if (!((program, name) in seen))
			functions[program] = functions[program] " " name
		seen[program, name] = 1
	}
	function flush()
	{
		if (run != "")
			print run
		run = ""
	}
	FNR == 1 { file++ }
	file == 1 && /^\t<testcase / {
		split($0, field, "\"")
		bad[field[2]] = !/ status="run">?/
	}
	file == 1 && /^\t\t<skipped message="SKIP_RETURN_CODE/ { bad[field[2]] = 0 }
	file == 2 && match($0, /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: [^ ]+/) {
		split(substr($0, RSTART, RLENGTH), field, /: /)
		if (sub(/.*\*\*\*/, "") && sub(/  +[0-9.]+ sec.*/, ""))
			how[field[2]] = " (" $0 ")"
	}
	file > 2 && /^[0-9]+\/[0-9]+ Test: / { program = $3 }
	file == 3 && /^Output:$/ { open_name = "" }
	file == 3 && case_after(" RUN      ") {
		open_name = substr($0, RSTART + 13, RLENGTH - 13)
	}
	file == 3 && /\[       OK \]/ { open_name = "" }
	file == 3 && case_after("  FAILED  ") {
		if (substr($0, RSTART + RLENGTH, 1) != ":")
			failed_function(substr($0, RSTART + 13, RLENGTH - 13))
		open_name = ""
	}
	file == 3 && /^<end of output>$/ && open_name != "" {
		failed_function(open_name)
		open_name = ""
	}
	file == 4 && FNR == 1 {
		for (name in bad)
			if (bad[name])
				print "failed: " name how[name] \
					(name in functions ? ":" functions[name] : "") | "sort"
		close("sort")
	}
	file == 4 && /^Output:$/ {
		on = bad[program]
		if (on)
			print "---- " program
		getline
		next
	}
	file == 4 && /^<end of output>$/ {
		flush()
		on = 0
	}
	file != 4 || !on { next }
	/\[       OK \]/ {
		run = ""
		next
	}
	{ flush() }
	/\[ RUN      \]/ {
		run = $0
		next
	}
	{ print }' "$1" "$3" "$2" "$2"
}

# at_once GROUP: how many of its tests run at a time.  A virtual machine takes two processors itself; some
# conformance programs do nothing but wait for seconds, and the stress programs that may run beside others run for
# a time, not for a number of turns.
at_once()
{
	jobs=$(hm_jobs)
	[ "$1" != vm ] || [ "$jobs" -le 2 ] || jobs=2
	[ "$1" != conformance ] || jobs=$((jobs + 1))
	[ "$1" != stress ] || jobs=$((jobs * 4))
	echo "$jobs"
}

# patience GROUP: how many seconds a test may take; programs in a virtual machine run many times slower.
patience()
{
	if [ "$1" = vm ]; then
		echo 900
	else
		echo "$timeout"
	fi
}

# without ALWAYS USUALLY COMMAND...: tests whose names match one of these patterns (empty: none) are left out of
# what the command runs, the second only where this is no soak.
without()
{
	exclude=$1
	[ -n "$soak" ] || [ -z "$2" ] || exclude=${1:+$1|}$2
	shift 2
	"$@"
	exclude=
}

# run_tests STEP FOLDER GROUPS...: the tests of these groups that are built in the folder.
run_tests()
{
	step=$1 folder=$2
	shift 2
	for group in "$@"; do
		start=$(now)
		junit=$results/$step.$group.xml
		log=$results/$step.$group.log
		said=$folder/Testing/Temporary/LastTest.log
		rm -f "$junit" "$said"
		begin "$step: $group"
		ctest --test-dir "$folder" -L "^$group\$" ${exclude:+-E "$exclude"} -j "$(at_once "$group")" \
			--timeout "$(patience "$group")" \
			--output-on-failure --output-junit "$PWD/$junit" >"$log" 2>&1
		status=$?
		set_counts "$junit" "$said"
		line="$p passed, $f failed, $s skipped"
		[ $((p + f + s)) -ne 0 ] || line="holds no test"
		say "$step: $group" "$line" $(($(now) - start))
		[ "$f" -eq 0 ] && [ $status -eq 0 ] ||
			explain "$junit" "$said" "$log"
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	done
}

# set_counts JUNIT LOG: p, f and s of the run just made.
set_counts()
{
	p=0 f=0 s=0
	if [ -s "$1" ]; then
		# shellcheck disable=SC2046
		set -- "$1" "$2" $(outcome "$1")
		p=$3 f=$4 s=$5
		functions "$step" "$group" "$1" "$2"
	fi
	# ctest itself failed, and no test tells why.
	[ $status -eq 0 ] || [ "$f" -gt 0 ] || f=1
}

# step PRESET GROUPS... [-- OPTIONS...]: builds, and runs those of the groups that were chosen.
step()
{
	preset=$1 wanted=
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		wanted="$wanted $1"
		shift
	done
	[ $# -eq 0 ] || shift
	# shellcheck disable=SC2086
	wanted=$(chosen $wanted)
	[ -n "$wanted" ] || return 0
	# shellcheck disable=SC2086
	build "$preset" "$(targets $wanted)" -DHMREG_TEST_WRAPPER= "$@" &&
		run_tests "$preset" "build/$preset" $wanted
}

# The build of clang once more under valgrind: only the commands of the tests change, not the programs.  What
# follows mappings, allocators and system calls of the process itself is not for a processor that valgrind
# simulates, with an allocator and mappings of its own; the sanitizers have it.
valgrind_step()
{
	wanted=$(chosen unit)
	[ -n "$wanted" ] && [ -n "$soak" ] || return 0
	valgrind="valgrind;-q;--leak-check=full;--show-leak-kinds=definite,indirect,possible"
	valgrind="$valgrind;--errors-for-leak-kinds=definite,indirect,possible;--error-exitcode=99"
	valgrind="$valgrind;--child-silent-after-fork=yes;--fair-sched=yes"
	valgrind="$valgrind;--suppressions=$PWD/tests/valgrind.supp"
	valgrind="$valgrind;--suppressions=$PWD/tests/valgrind-tests.supp"
	# shellcheck disable=SC2086
	build clang "$(targets $wanted)" -DHMREG_TEST_WRAPPER="$valgrind" || return
	# shellcheck disable=SC2086
	HMREG_VALGRIND=1 without '^test_(monitor_.*|mr_stats|info_cache)$' "" \
		run_tests valgrind build/clang $wanted
	cmake -DHMREG_TEST_WRAPPER= build/clang >/dev/null
}

# The virtual machine's image, and before it the packages that it takes.  77: not on this machine.
vm_image()
{
	obstacle=$(
		. tests/vm/lib.sh
		hm_vm_obstacle
	)
	if [ -n "$obstacle" ] || ! hm_packages vm; then
		echo "No virtual machine: ${obstacle:-its packages cannot be installed}"
		return 77
	fi
	tests/vm/build.sh
}

# Where there can be no virtual machine, the reason is said, and that counts as one skipped test.
vm_step()
{
	[ -n "$(chosen vm)" ] || return 0
	start=$(now)
	log=$results/machine.vm.log
	begin "virtual machine"
	vm_image >"$log" 2>&1
	case $? in
	0)
		say "virtual machine" "image is ready" $(($(now) - start))
		without "" '^vm_conformance_(minimal|wires)$' step release vm -- -DHMREG_BUILD_TESTS=ON
		;;
	77)
		say "virtual machine" "skipped:" $(($(now) - start))
		tail -n 2 "$log"
		skipped=$((skipped + 1))
		;;
	*)
		say "virtual machine" "FAILED, see $log" $(($(now) - start))
		tail -n 30 "$log"
		failed=$((failed + 1))
		;;
	esac
}

# The Debian packages: made twice, then installed in a root of their own.  Each line of these scripts is one test.
package_step()
{
	[ -n "$(chosen package)" ] || return 0
	start=$(now)
	log=$results/package.package.log
	begin "package"
	if ! hm_packages package >"$log" 2>&1; then
		say "package" "skipped: its tools cannot be installed" $(($(now) - start))
		tail -n 2 "$log"
		skipped=$((skipped + 1))
		return
	fi
	tests/package/build.sh >"$log" 2>&1 && tests/package/install.sh >>"$log" 2>&1
	status=$?
	p=$(grep -c '^\[       OK \]' "$log") f=$(grep -c '^\[  FAILED  \]' "$log") s=$(grep -c '^\[  SKIPPED \]' "$log")
	# A script that ended before it could say so.
	[ $status -eq 0 ] || [ $status -eq 77 ] || [ "$f" -gt 0 ] || f=1
	say "package" "$p passed, $f failed, $s skipped" $(($(now) - start))
	sed -n 's/^\[  SKIPPED \] /skipped: /p' "$log"
	[ "$f" -eq 0 ] || cat "$log"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Over a real driver of NVIDIA's, where there is one; a run is one test for each line of its table.
gpu_step()
{
	[ -n "$(chosen gpu)" ] || return 0
	start=$(now)
	log=$results/gpu.gpu.log
	begin "gpu"
	tests/gpu/run.sh >"$log" 2>&1
	status=$?
	# shellcheck disable=SC2046
	set -- $(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped;.*/\1 \2 \3/p' "$log")
	[ $# -eq 3 ] || set -- 0 1 0
	[ $status -ne 77 ] || set -- 0 0 1
	[ $status -eq 0 ] || [ $status -eq 77 ] || [ "$2" -gt 0 ] || set -- "$1" 1 "$3"
	if [ $status -eq 77 ]; then
		say "gpu" "skipped: $(sed -n 's/^GPU check: skipped: //p' "$log")" $(($(now) - start))
	else
		say "gpu" "$1 passed, $2 failed, $3 skipped" $(($(now) - start))
		[ $status -eq 0 ] || cat "$log"
	fi
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# Sanitizers of these compilers want the usual address layout; not every container lets us ask for it.
fixed_layout()
{
	if command -v setarch >/dev/null 2>&1 && setarch -R true 2>/dev/null; then
		echo "-DHMREG_TEST_WRAPPER=setarch;-R"
	fi
}

# Devices and drivers of other kinds, a device's memory over other NICs, devices of threads, and other ways to tell what
# is stale.
variants='_emu0_|^conf_.*hmem_.*_(emu0|sw-.*|sub|off)$|^conf_xpu_.*_threads$|^stress_fresh_.*_(tags|fork|raw|stale)$'

# What the release has done in full takes fewer turns here.  Sub-MRs of a device's memory are in conf_sub_hmem
# anyway, so the tests of its regions are not run once more over them; nor is a device's life once more without
# descriptors.
asan_step()
{
	export HMREG_TEST_BRIEF=1
	without '^(conf_mr_hmem_.*_sub|fault_verbs_bare)$' "$variants" \
		step asan unit conformance fault stress -- "$@"
	unset HMREG_TEST_BRIEF
}

run_all()
{
	layout=$(fixed_layout)
	stress=5 fuzz=40
	[ -z "$soak" ] || stress=600 fuzz=600
	timeout=$((300 + stress + fuzz))
	export HMREG_STRESS_SECONDS=$stress HMREG_FUZZ_SECONDS=$fuzz
	[ -z "$soak" ] || export HMREG_FRESH_SECONDS=$stress
	export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1
	export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"

	without "" '^stress_(capacity_nic|fresh_.*_stale_tags)$' \
		step release unit conformance fault checks stress -- -DHMREG_BUILD_TESTS=ON
	step clang unit ${soak:+fault}
	valgrind_step
	[ -n "$soak" ] || export HMREG_FRESH_SECONDS=4
	asan_step $layout
	without "" "$variants" step tsan stress -- $layout
	step fuzz fuzz -- $layout
	vm_step
	package_step
	gpu_step
}

parse_options "$@"
echo "hmreg tests: looks for compilers and tools, builds in build/, runs:$(printf ' %s' $groups)"
start_all=$(now)
hm_packages build test || exit 1
mkdir -p $results
for group in $groups; do
	rm -f $results/*."$group".tsv $results/*."$group".xml $results/*."$group".log
done
run_all
echo "Took $((($(now) - start_all) / 60)) min $((($(now) - start_all) % 60)) s; details are in $results."
[ $((passed + failed)) -gt 0 ] || echo "error: no test ran" >&2
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
