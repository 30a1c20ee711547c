# SPDX-License-Identifier: BSD-2-Clause
# The Debian packages that building and testing need, and the function that installs those missing.
# Read by samples/demo.sh, tests/run.sh and tests/bench/run.sh:  . tests/packages.sh; hm_packages build

# Set, package, and what shows that it is there: a program, a file, a shared object, a header of C, a pkg-config
# module, or a trial compilation.
hm_package_list()
{
	cat <<-END
	build	gcc			program gcc
	build	libc6-dev		compile gcc
	build	cmake			program cmake
	build	make			program make
	build	binutils		program ld
	build	libibverbs-dev		header infiniband/verbs.h
	build	librdmacm-dev		header rdma/rdma_cma.h
	test	g++			compile g++
	test	libcmocka-dev		module cmocka
	test	pkg-config		program pkg-config
	test	valgrind		program valgrind
	test	clang			compile clang
	test	libclang-rt-14-dev	compile clang -fsanitize=fuzzer,address
	test	clang-format		program clang-format
	test	mandoc			program mandoc
	test	python3			program python3
	test	spin			program spin
	test	abigail-tools		program abidiff
	test	libhwloc-dev		module hwloc
	test	systemtap-sdt-dev	header sys/sdt.h
	test	libjemalloc2		library libjemalloc.so.2
	test	libmimalloc2.0		library libmimalloc.so.2.0
	test	libgoogle-perftools4	library libtcmalloc.so.4
	test	libfabric-dev		header rdma/providers/fi_prov.h
	test	libfabric-bin		program fi_info
	bench	libucx-dev		header ucs/memory/rcache.h
	package	debhelper		program dh
	package	dh-python		program dh_python3
	package	dpkg-dev		program dpkg-buildpackage
	package	lintian			program lintian
	package	xz-utils		program xz
	package	python3			program python3
	package	systemtap-sdt-dev	header sys/sdt.h
	package	debootstrap		program debootstrap
	vm	qemu-system-x86		program qemu-system-x86_64
	vm	busybox-static		program busybox
	vm	cpio			program cpio
	vm	xz-utils		program xz
	vm	zstd			program zstd
	vm	python3			program python3
	vm	iproute2		program rdma
	vm	ibverbs-utils		program ibv_devinfo
	vm	ibverbs-providers	file /etc/libibverbs.d/rxe.driver
	END
	# Level Zero's loader, which brings its headers along; Debian has it for these machines alone.
	[ "$(uname -m)" != x86_64 ] || echo "test libze-dev header level_zero/ze_ddi.h"
}

# hm_compiles COMMAND...: does this compiler make a program?
hm_compiles()
{
	command -v "$1" >/dev/null 2>&1 || return 1
	case $1 in
	*++) language=c++ ;;
	*) language=c ;;
	esac
	case "$*" in
	*fuzzer*) text='int LLVMFuzzerTestOneInput(const unsigned char *d, __SIZE_TYPE__ n) { return d && n > 9; }' ;;
	*) text='#include <stdio.h>
int main(void) { return puts(""); }' ;;
	esac
	[ -n "${hm_scratch:-}" ] || hm_scratch=$(mktemp -d)
	printf '%s\n' "$text" | "$@" -x $language - -o "$hm_scratch/a.out" 2>/dev/null
}

# hm_library NAME: prints where the system has this shared object.
hm_library()
{
	for folder in /usr/lib/"$(uname -m)"-linux-gnu* /usr/lib64 /usr/lib; do
		if [ -e "$folder/$1" ]; then
			echo "$folder/$1"
			return 0
		fi
	done
	return 1
}

# hm_present KIND ARGUMENTS...
hm_present()
{
	kind=$1
	shift
	case $kind in
	program) command -v "$1" >/dev/null 2>&1 ;;
	module) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "$1" ;;
	file) [ -e "$1" ] ;;
	library) hm_library "$1" >/dev/null ;;
	header) echo "#include <$1>" | gcc -x c -E - >/dev/null 2>&1 ;;
	compile) hm_compiles "$@" ;;
	esac
}

# hm_missing SETS...: prints the packages of these sets that are not there.
hm_missing()
{
	hm_package_list | while read -r set package proof; do
		case " $* " in
		*" $set "*) ;;
		*) continue ;;
		esac
		# shellcheck disable=SC2086
		hm_present $proof </dev/null || echo "$package"
	done
}

# hm_packages SETS...: installs what is missing; touches nothing, and no network, when nothing is.
hm_packages()
{
	hm_scratch=$(mktemp -d)
	missing=$(hm_missing "$@" | tr '\n' ' ')
	missing=${missing% }
	if [ -n "$missing" ]; then
		echo "Installing these Debian packages, which takes a minute or two: $missing"
		hm_install "$missing" || {
			rm -rf "$hm_scratch"
			return 1
		}
		missing=$(hm_missing "$@" | tr '\n' ' ')
	fi
	rm -rf "$hm_scratch"
	hm_scratch=
	if [ -n "$missing" ]; then
		echo "error: still missing after the installation: $missing" >&2
		return 1
	fi
}

# hm_install "PACKAGES": as root, or through sudo.
hm_install()
{
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "error: no apt-get on this machine; install these, or what stands for them: $1" >&2
		return 1
	fi
	as_root=
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null 2>&1; then
			echo "error: to install packages, run this as root or install sudo" >&2
			return 1
		fi
		as_root=sudo
	fi
	hm_apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y"
	# shellcheck disable=SC2086
	$hm_apt install --no-install-recommends $1 >"$hm_scratch/apt.log" 2>&1 && return 0
	# Package lists that are missing or old: fetch them, and try once more.
	# shellcheck disable=SC2086
	{ $hm_apt update && $hm_apt install --no-install-recommends $1; } >"$hm_scratch/apt.log" 2>&1 &&
		return 0
	tail -n 20 "$hm_scratch/apt.log" >&2
	echo "error: apt-get could not install: $1" >&2
	return 1
}

# hm_jobs: how many compilations at once.
hm_jobs()
{
	n=$(getconf _NPROCESSORS_ONLN 2>/dev/null) || n=2
	echo "${HMREG_JOBS:-$n}"
}

# hm_configure PRESET FOLDER OPTIONS...: anew, when the folder came here with a copied tree.  A folder that
# is new is built with Ninja, where that is: it needs a tenth less time than make, and a second instead of
# ten to find that nothing changed.
hm_configure()
{
	preset=$1 folder=$2
	shift 2
	if [ -f "$folder/CMakeCache.txt" ] &&
		! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$folder/CMakeCache.txt"; then
		rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
	fi
	if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
		set -- -G Ninja "$@"
	fi
	cmake --preset "$preset" -B "$folder" "$@"
}
