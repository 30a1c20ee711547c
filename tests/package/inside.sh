#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What tests/package/install.sh runs in the root where the packages are: each use_NAME is a test.
# Usage: inside.sh NAME
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
libdir=/usr/lib/$(gcc -print-multiarch)

use_info()
{
	hmreg-info >list
	cat list
	for domain in sw-scalable sw-verbs sw-strict; do
		grep -q "$domain" list
	done
}

use_rma()
{
	for domain in sw-scalable sw-verbs sw-strict; do
		hmreg-rma -d $domain --max 1M --no-progress
	done
}

use_check()
{
	hmreg-check --nic sw-verbs
}

# The program of README.md.
readme_program()
{
	awk '/^```c$/ { on = !n++; next } /^```$/ { on = 0 } on' /source/README.md >program.c
	grep -q 'int main' program.c
}

written()
{
	"$1" | grep -x 'written through a key'
}

use_pkg_config()
{
	readme_program
	# shellcheck disable=SC2046
	gcc -Wall -Werror -o program program.c $(pkg-config --cflags --libs hmreg)
	readelf -d program | grep 'NEEDED.*libhmreg.so.1'
	written ./program
	# shellcheck disable=SC2046
	g++ -std=c++17 -o cxx_write /source/samples/cxx_write.cpp $(pkg-config --cflags --libs hmreg)
	./cxx_write sw-verbs | grep -x 'written from C++'
}

use_static_library()
{
	readme_program
	# shellcheck disable=SC2046
	gcc -o program program.c -Wl,-Bstatic $(pkg-config --static --cflags --libs hmreg) -Wl,-Bdynamic
	if readelf -d program | grep hmreg; then
		return 1
	fi
	written ./program
}

use_cmake()
{
	readme_program
	cat >CMakeLists.txt <<-'EOF'
	cmake_minimum_required(VERSION 3.25)
	project(outside LANGUAGES C)
	find_package(hmreg 1.0 REQUIRED)
	foreach(kind hmreg hmreg_static)
	  add_executable(with_${kind} program.c)
	  target_link_libraries(with_${kind} PRIVATE hmreg::${kind})
	endforeach()
	EOF
	cmake -B build . && cmake --build build
	written build/with_hmreg
	written build/with_hmreg_static
}

# Both sets of headers are there, and each is found by its name: hmreg's are of interface 2, libfabric's of 1.
use_headers_beside_libfabric()
{
	[ -e /usr/include/rdma/fabric.h ]
	for pair in hmreg:2 libfabric:1; do
		printf '#include <rdma/fabric.h>\nint main(void) { return FI_MAJOR_VERSION != %s; }\n' "${pair#*:}" >v.c
		# shellcheck disable=SC2046
		gcc -o v v.c $(pkg-config --cflags --libs "${pair%:*}")
		./v
	done
}

use_provider()
{
	fi_info -p hmreg >list
	cat list
	grep -q 'domain: sw-verbs' list
	FI_PROVIDER_PATH=$libdir/libfabric fi_info -p hmreg -d sw-strict | grep 'domain: sw-strict'
	! FI_PROVIDER_PATH=/nowhere fi_info -p hmreg
}

use_python()
{
	python3 -c 'import hmreg; print(hmreg.__file__)' | grep '^/usr/lib/python3/dist-packages/hmreg/'
	python3 /source/samples/python_write.py sw-verbs | grep -x 'written from Python'
}

# Every page of ours is found by its name and can be read, under each name that it has.
use_manual()
{
	for tool in hmreg-info hmreg-check hmreg-rma; do
		man -w 1 $tool
	done
	for page in hmreg hmreg-fi hmreg_mr_cache hmreg_xpu; do
		man -w 7 $page
	done
	man -w 3 hmreg_python
	names=$(ls /usr/share/man/man3 | sed -n 's/\.3hmreg\.gz$//p')
	# shellcheck disable=SC2086
	man -w 3hmreg $names >places
	[ "$(wc -l <places)" -eq "$(printf '%s\n' "$names" | wc -l)" ]
	wc -l <places
	for page in $(xargs readlink -f <places | sort -u); do
		man "$page" >page 2>errors
		grep -q SYNOPSIS page
		# A table of 80 columns may run into the margin.
		! grep -v "can't break line" errors >complaints || { cat complaints && return 1; }
	done
}

# Loaded as bash-completion does it on the first key.
use_completion()
{
	cat >complete.bash <<-'EOF'
	. /usr/share/bash-completion/bash_completion
	for tool in hmreg-info hmreg-check hmreg-rma; do
		_completion_loader $tool
		complete -p $tool || exit 1
	done
	COMP_WORDS=(hmreg-rma -d sw-s) COMP_CWORD=2
	_hmreg hmreg-rma
	echo "offers: ${COMPREPLY[*]}"
	EOF
	bash complete.bash >offered
	cat offered
	grep -qx 'offers: sw-scalable sw-strict' offered
}

"use_$1"
