# SPDX-License-Identifier: BSD-2-Clause
# For scripts that test: scratch is a folder that goes with the script; attempt counts in passed and failed.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# attempt NAME COMMAND...: runs it, and shows its output only when it fails.
attempt()
{
	label=$1
	shift
	if "$@" >"$scratch/log" 2>&1; then
		passed=$((passed + 1))
		echo "[       OK ] $label"
	else
		failed=$((failed + 1))
		cat "$scratch/log"
		echo "[  FAILED  ] $label"
	fi
}

# Of what a program printed, in out and err of scratch:

# has WORDS: a line of out has this, a basic regular expression.
has()
{
	grep -q -- "$1" "$scratch/out" || {
		echo "nothing like \"$1\" is in it"
		return 1
	}
}

# answers STATUS WORDS COMMAND...: it ends with this status, and these words are in what it says, as they stand.
answers()
{
	wanted=$1 words=$2
	shift 2
	"$@" >"$scratch/said" 2>&1
	status=$?
	cat "$scratch/said"
	[ $status -eq "$wanted" ] || { echo "status $status, not $wanted" && return 1; }
	grep -qF -- "$words" "$scratch/said"
}
