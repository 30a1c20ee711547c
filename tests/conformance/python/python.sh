#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs a Python program with the module of this tree.  Status 77: there is no Python that is new enough.
# Usage: python.sh PROGRAM ARGUMENTS...
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
if ! command -v python3 >/dev/null 2>&1; then
	echo "[  SKIPPED ] $(basename "$1" .py): python3 is not installed"
	exit 77
fi
if ! python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
	echo "[  SKIPPED ] $(basename "$1" .py): python3 is older than 3.8, or has no ctypes"
	exit 77
fi
export PYTHONPATH="$root/include/python"
exec python3 -B "$@"
