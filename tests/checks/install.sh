#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs into a fresh folder, moves it, and builds small outside projects against it: in C and C++,
# with find_package(hmreg) and with pkg-config, shared and static; and imports the Python module.  Each program is run.
# Usage: install.sh BUILD-FOLDER [C-COMPILER CXX-COMPILER]
set -eu
build=$1 cc=${2:-cc} cxx=${3:-c++}
. "$(dirname "$0")/../attempt.sh"

# The same text is a C and a C++ program: it lists the ports and registers a buffer on each.
write_project()
{
	mkdir -p "$scratch/project"
	cat >"$scratch/project/outside.c" <<-'END'
	#include <stdint.h>
	#include <stdio.h>
	#include <string.h>

	#include <rdma/fabric.h>
	#include <rdma/fi_domain.h>
	#include <rdma/fi_endpoint.h>
	#include <rdma/fi_errno.h>

	static char buffer[8192];

	static int register_on(struct fi_info *info)
	{
		struct fid_fabric *fabric = NULL;
		struct fid_domain *domain = NULL;
		struct fid_mr *mr = NULL;
		int ret = fi_fabric(info->fabric_attr, &fabric, NULL);

		if (ret)
			return ret;
		ret = fi_domain(fabric, info, &domain, NULL);
		if (!ret) {
			ret = fi_mr_reg(domain, buffer, sizeof(buffer), FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
					7, 0, &mr, NULL);
			if (!ret && !fi_mr_desc(mr))
				ret = -FI_EINVAL;
			if (mr && fi_close(&mr->fid))
				ret = -FI_EBUSY;
			if (fi_close(&domain->fid))
				ret = -FI_EBUSY;
		}
		if (fi_close(&fabric->fid))
			ret = -FI_EBUSY;
		return ret;
	}

	int main(void)
	{
		struct fi_info *hints = fi_allocinfo(), *list = NULL, *info;
		int ret, count = 0;

		if (!hints)
			return 1;
		hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
		ret = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &list);
		if (ret) {
			printf("fi_getinfo: %s\n", fi_strerror(-ret));
			return 1;
		}
		for (info = list; info; info = info->next) {
			ret = register_on(info);
			printf("%s: %s\n", info->domain_attr->name, ret ? fi_strerror(-ret) : "registered");
			if (ret)
				return 1;
			count++;
		}
		fi_freeinfo(list);
		fi_freeinfo(hints);
		return count ? 0 : 1;
	}
	END
	sed 's/^/ /' "$scratch/project/outside.c" >"$scratch/project/outside.cpp"
	cat >"$scratch/project/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.25)
	project(outside LANGUAGES C CXX)
	find_package(hmreg 1.0 REQUIRED)
	foreach(kind hmreg hmreg_static)
	  add_executable(c_${kind} outside.c)
	  target_link_libraries(c_${kind} PRIVATE hmreg::${kind})
	  add_executable(cpp_${kind} outside.cpp)
	  target_link_libraries(cpp_${kind} PRIVATE hmreg::${kind})
	endforeach()
	END
}

# Every file the outside needs is there; nothing speaks of the build folder or the source folder.
layout()
{
	for file in include/rdma/fabric.h include/rdma/fi_domain.h include/rdma/fi_ext_hmreg.h include/hmreg/hmreg.hpp bin/hmreg-check bin/hmreg-rma bin/hmreg-info \
		"$lib/libhmreg.so" "$lib/libhmreg.so.1" "$lib/libhmreg.so.1.0.0" "$lib/libhmreg.a" \
		"$lib/pkgconfig/hmreg.pc" "$lib/cmake/hmreg/hmregConfig.cmake" \
		"$lib/cmake/hmreg/hmregConfigVersion.cmake" "$lib/cmake/hmreg/hmregTargets.cmake" \
		share/hmreg/hmreg.supp share/doc/hmreg/LICENSE share/doc/hmreg/guide.md share/doc/hmreg/registration.svg share/doc/hmreg/troubleshooting.md "$lib/libfabric/libhmreg-fi.so" \
		lib/python3/dist-packages/hmreg/__init__.py; do
		[ -e "$prefix/$file" ] || {
			echo "$file is not installed"
			return 1
		}
	done
	! grep -rlF -e "$build" -e "$source" "$prefix/$lib/pkgconfig" "$prefix/$lib/cmake" "$prefix/include"
}

with_cmake()
{
	cmake -S "$scratch/project" -B "$scratch/outside" -DCMAKE_PREFIX_PATH="$prefix" \
		-DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" && cmake --build "$scratch/outside"
}

# with_pkg_config COMPILER SOURCE shared|static
with_pkg_config()
{
	compiler=$1 text=$2 kind=$3
	set -- -Wall -Wextra -Werror -o "$scratch/$kind" "$scratch/project/$text"
	if [ "$kind" = static ]; then
		# shellcheck disable=SC2046
		"$compiler" "$@" -Wl,-Bstatic $(pkg-config --static --cflags --libs hmreg) -Wl,-Bdynamic
		! ldd "$scratch/static" | grep hmreg || return 1
		"$scratch/static"
	else
		# shellcheck disable=SC2046
		"$compiler" "$@" $(pkg-config --cflags --libs hmreg) &&
			LD_LIBRARY_PATH=$prefix/$lib "$scratch/shared"
	fi
}

# The sample for C++, with the headers that are for it.
with_cxx_headers()
{
	# shellcheck disable=SC2046
	"$cxx" -std=c++17 -Wall -Wextra -Werror -o "$scratch/cxx_write" "$source/samples/cxx_write.cpp" \
		$(pkg-config --cflags --libs hmreg) && LD_LIBRARY_PATH=$prefix/$lib "$scratch/cxx_write" sw-verbs
}

# The plug-in, for a libfabric of this machine; one without a sanitizer does not load one with it.
plugin_is_listed()
{
	if ! command -v fi_info >/dev/null 2>&1 || ! grep -q '^HMREG_SANITIZE:[A-Z]*=$' "$build/CMakeCache.txt"; then
		echo "not tried: no fi_info here (package libfabric-bin), or a sanitizer"
		return 0
	fi
	FI_PROVIDER_PATH=$prefix/$lib/libfabric fi_info -p hmreg -d sw-verbs | grep 'domain: sw-verbs'
}

# The Python module finds the library of its own tree, wherever that is.
with_python()
{
	env -u LD_LIBRARY_PATH PYTHONPATH="$prefix/lib/python3/dist-packages" \
		python3 -B "$source/samples/python_write.py" sw-verbs >"$scratch/python" &&
		grep -qx "written from Python" "$scratch/python"
}

source=$(cd "$(dirname "$0")/../.." && pwd)
lib=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
attempt install cmake --install "$build" --prefix "$scratch/first"
[ "$failed" -eq 0 ] || exit 1
# Where it ends up need not be where it was put first.
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix
export PKG_CONFIG_PATH="$prefix/$lib/pkgconfig"

write_project
attempt install_layout layout
attempt find_package_builds with_cmake
for program in c_hmreg cpp_hmreg c_hmreg_static cpp_hmreg_static; do
	attempt "find_package_$program" "$scratch/outside/$program"
done
attempt pkg_config_c with_pkg_config "$cc" outside.c shared
attempt pkg_config_cpp with_pkg_config "$cxx" outside.cpp shared
attempt pkg_config_cxx_headers with_cxx_headers
attempt pkg_config_c_static with_pkg_config "$cc" outside.c static
attempt pkg_config_cpp_static with_pkg_config "$cxx" outside.cpp static
attempt installed_plugin_is_listed plugin_is_listed
if command -v python3 >/dev/null 2>&1 && grep -q '^HMREG_SANITIZE:[A-Z]*=$' "$build/CMakeCache.txt"; then
	attempt python_module with_python
else
	echo "[  SKIPPED ] python_module: python3 is not installed, or a sanitizer"
fi
attempt installed_tool_starts "$prefix/bin/hmreg-rma" --help
[ "$failed" -eq 0 ]
