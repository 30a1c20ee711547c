# SPDX-License-Identifier: BSD-2-Clause
# For checks in sh that report several cases.  status: 1 once a case has failed.
status=0

# verdict NAME STATUS
verdict()
{
	if [ "$2" -eq 0 ]; then
		echo "[       OK ] $1"
	else
		echo "[  FAILED  ] $1"
		status=1
	fi
}
