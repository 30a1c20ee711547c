#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# README.md tells the truth: its C program compiles against an installed tree and does what the text
# says, its CMake lines configure, its tables list what the code has, and what it names exists.  The
# tables of the manual are compared with the code as well.
# Usage: readme.sh [BUILD-FOLDER [C-COMPILER]]   (default: the build tree around the present folder)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$PWD}
cc=${2:-cc}
while [ ! -e "$build/CMakeCache.txt" ] && [ "$build" != / ] && [ -n "$build" ]; do
	build=$(dirname "$build")
done
if [ ! -e "$build/CMakeCache.txt" ]; then
	echo "error: no build tree here; give its folder" >&2
	exit 2
fi
readme=$root/README.md
. "$root/tests/attempt.sh"

# block LANGUAGE: the only fenced block of this language.
block()
{
	if [ "$(grep -c "^\`\`\`$1\$" "$readme")" -ne 1 ]; then
		echo "README.md has not exactly one \`\`\`$1 block"
		return 1
	fi
	sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$readme" | sed '1d;$d'
}

# rows TITLE: the first cells of the table under this heading, without the marks of code.
rows()
{
	awk -F'|' -v title="## $1" '
	/^## / { on = ($0 == title) }
	on && /^\| `/ { gsub(/[` ]/, "", $2); gsub(/[` ]/, "", $3); print $2, $3 }' "$readme"
}

# ---- the program ----

install_tree()
{
	cmake --install "$build" --prefix "$scratch/prefix" && pkg-config --exists hmreg
}

compile_program()
{
	block c >"$scratch/program.c" || return 1
	# shellcheck disable=SC2046
	"$cc" -std=c11 -Wall -Wextra -Werror -o "$scratch/program" "$scratch/program.c" \
		$(pkg-config --cflags --libs hmreg)
}

# It prints the line that the text promises.
run_program()
{
	promised=$(sed -n 's/^prints `\(.*\)`.*/\1/p' "$readme")
	[ -n "$promised" ] || return 1
	printed=$(LD_LIBRARY_PATH="$scratch/prefix/$lib" "$scratch/program") || return 1
	[ "$printed" = "$promised" ] || {
		echo "it printed \"$printed\", README.md says \"$promised\""
		return 1
	}
}

# Without a NIC it has to fail, and say why: what shows that its checks are checks.
program_fails()
{
	! HMREG_SW_ENABLE=0 LD_LIBRARY_PATH="$scratch/prefix/$lib" "$scratch/program" >"$scratch/out" 2>&1 &&
		grep -q '^failed: ' "$scratch/out"
}

with_cmake()
{
	mkdir -p "$scratch/outside"
	{
		echo 'cmake_minimum_required(VERSION 3.25)'
		echo 'project(outside LANGUAGES C)'
		echo "add_executable(program $scratch/program.c)"
		block cmake
	} >"$scratch/outside/CMakeLists.txt" || return 1
	cmake -S "$scratch/outside" -B "$scratch/outside/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
		-DCMAKE_C_COMPILER="$cc" && cmake --build "$scratch/outside/build" &&
		"$scratch/outside/build/program"
}

# A block in another language is a sample that is built and run.
# block_is_sample LANGUAGE FILE
block_is_sample()
{
	block "$1" | grep -v '^$' >"$scratch/block" || return 1
	grep -vE '^(/\*.*\*/|#.*)?$' "$root/$2" | diff "$scratch/block" -
}

# ---- the tables ----

# same WHAT FILE FILE
same()
{
	[ -s "$2" ] && [ -s "$3" ] || {
		echo "nothing found about $1"
		return 1
	}
	diff "$2" "$3"
}

variables_in_code()
{
	sed -n 's/.*\[HM_PARAM_[A-Z0-9_]*\] = { "\([A-Z0-9_]*\)".*/\1/p' "$root/core/base/params.c" | sort
}

variables()
{
	variables_in_code >"$scratch/code"
	rows "Environment variables" | awk '{ print $1 }' | sort >"$scratch/text"
	same "variables" "$scratch/code" "$scratch/text"
}

variables_of_manual()
{
	variables_in_code >"$scratch/code"
	awk '/^\.Sh/ { on = /ENVIRONMENT/ }
	on && /^\.It Ev/ { for (i = 3; i <= NF; i++) if ($i ~ /^[A-Z0-9_]+$/) print $i }' \
		"$root/man/hmreg.7" | sort >"$scratch/text"
	same "variables" "$scratch/code" "$scratch/text"
}

causes_in_code()
{
	sed -n 's/^\t\(HMREG_[A-Z_]*\) = [0-9]*,.*(\(FI_E[A-Z]*\|any\)) \*\/.*/\1 \2/p' \
		"$root/include/rdma/fi_ext_hmreg.h" | sort
}

causes()
{
	causes_in_code >"$scratch/code"
	rows "Why an operation failed" | sort >"$scratch/text"
	same "causes" "$scratch/code" "$scratch/text"
}

causes_of_manual()
{
	causes_in_code >"$scratch/code"
	awk '/^\.It HMREG_/ { print $2, $4 }' "$root/man/hmreg_fi_cq.3" | sort >"$scratch/text"
	same "causes" "$scratch/code" "$scratch/text"
}

# What the NIC really does with a cause, against what the header says about it.
causes_of_nic()
{
	causes_in_code | grep -v ' any$' >"$scratch/code"
	grep -o '\[HMREG_[A-Z_]*\] = FI_E[A-Z]*' "$root/core/nic/comp.c" |
		sed 's/\[\(.*\)\] = /\1 /' | grep -v '^HMREG_REFUSED ' | sort >"$scratch/text" # the call's own
	same "causes" "$scratch/code" "$scratch/text"
}

# Each profile's bits, as fi_getinfo gives them to the installed tool.
profiles()
{
	"$scratch/prefix/bin/hmreg-rma" list | awk '/^sw-/ { print $1, $6 }' | sed 's/none//' |
		tr '|' ' ' | awk '{ line = $1; for (i = 2; i <= NF; i++) line = line " FI_MR_" $i; print line }' \
		>"$scratch/code"
	awk -F'|' '
	/^## / { on = ($0 == "## The four profiles") }
	on && /^\| `sw-/ {
		gsub(/[` ]/, "", $2)
		line = $2
		if ($2 == "sw-verbs" || $2 == "sw-scalable")
			known[$2] = $3
		text = $3
		if (text ~ /those four/)
			text = known["sw-verbs"] text
		if ($2 == "sw-strict")
			known[$2] = text
		if (text ~ /each that hints offer/) # and the tool offers every one
			text = known["sw-strict"]
		while (match(text, /FI_MR_[A-Z_]+/)) {
			line = line " " substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
		}
		print line
	}' "$readme" >"$scratch/text"
	for side in code text; do
		while read -r name bits; do
			# shellcheck disable=SC2086
			printf '%s %s\n' "$name" "$(printf '%s\n' $bits | sort | tr '\n' ' ')"
		done <"$scratch/$side" | sort >"$scratch/$side.sorted"
	done
	same "profiles" "$scratch/code.sorted" "$scratch/text.sorted"
}

# ---- names ----

# Files that the texts link to or name as code, in the tree or (programs) in the build.
files()
{
	status=0
	for text in README.md CONTRIBUTING.md CHANGELOG.md tests/README.md tests/bench/RESULTS.md; do
		[ -s "$root/$text" ] || {
			echo "there is no $text"
			status=1
			continue
		}
		grep -ohE '`(core|hmem|dmabuf|xpu|include|samples|tests|man|doc|cmake|\.ci)/[A-Za-z0-9_./-]*`' "$root/$text" |
			tr -d '`' | sort -u >"$scratch/names"
		sed -n 's/.*](\([A-Za-z0-9_./-]*\)).*/\1/p' "$root/$text" >>"$scratch/names"
		while read -r name; do
			[ -e "$root/$name" ] || [ -e "$(dirname "$root/$text")/$name" ] || {
				echo "$text names $name, which is not there"
				status=1
			}
		done <"$scratch/names"
	done
	return $status
}

# Samples and groups of tests are all there are.
samples()
{
	sed -n '/^set(HMREG_[A-Z_]*SAMPLES$/,/^)/s/^ *\([a-z_]*\)$/\1/p; s/^ *list(APPEND HMREG_VERBS_SAMPLES \([a-z_]*\))$/\1/p' "$root/samples/CMakeLists.txt" | sort >"$scratch/code"
	awk -F'|' '/^\| program / { on = 1 } /^$/ { on = 0 }
	on && /^\| `[a-z_]*` / { gsub(/[` ]/, "", $2); print $2 }' "$readme" | sort >"$scratch/text"
	same "samples" "$scratch/code" "$scratch/text"
}

groups()
{
	sed -n 's/^all_groups="\(.*\)"$/\1/p' "$root/tests/run.sh" | tr ' ' '\n' | sort >"$scratch/code"
	sed -n 's/.*runs only some of \(.*\)\. |$/\1/p' "$readme" | tr -d '`,' | tr ' ' '\n' | sort >"$scratch/text"
	same "groups" "$scratch/code" "$scratch/text"
}

# Links inside README.md lead to a heading.
anchors()
{
	sed -n 's/^##* //p' "$readme" | tr 'A-Z ' 'a-z-' | tr -d '`(),.' >"$scratch/headings"
	grep -oE '\]\(#[a-z0-9-]*\)' "$readme" | tr -d '](#)' >"$scratch/anchors"
	! grep -vxF -f "$scratch/headings" "$scratch/anchors"
}

lib=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
export PKG_CONFIG_PATH="$scratch/prefix/$lib/pkgconfig"
attempt readme_install install_tree
attempt readme_program_compiles compile_program
attempt readme_program_runs run_program
attempt readme_program_tells_failure program_fails
attempt readme_find_package with_cmake
attempt readme_cpp_is_the_sample block_is_sample cpp samples/cxx_write.cpp
attempt readme_python_is_the_sample block_is_sample python samples/python_write.py
attempt readme_variables variables
attempt manual_variables variables_of_manual
attempt readme_causes causes
attempt manual_causes causes_of_manual
attempt header_causes_are_the_nics causes_of_nic
attempt readme_profiles profiles
attempt readme_samples samples
attempt readme_groups groups
attempt readme_anchors anchors
attempt texts_name_what_exists files

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
