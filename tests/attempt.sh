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
