#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-check on a real RDMA device: what works, and causes that take a kernel's device or limits.
# Usage: check.sh HMREG-CHECK
. /job/lib.sh
check=$1

# provokes CAUSE STATUS [COMMAND...] -- ARGUMENTS...: the tool (through the command) ends with this cause.
provokes()
{
	cause=$1 status=$2 through=
	shift 2
	while [ "$1" != -- ]; do
		through="$through $1"
		shift
	done
	shift
	$through "$check" "$@" >/tmp/said 2>&1
	got=$?
	cat /tmp/said
	[ $got -eq "$status" ] || wrong "exit status $got, expected $status"
	grep -qx "cause: $cause (exit status $status)" /tmp/said || wrong "the cause is not $cause"
	sed -n '/^remedy:$/,$p' /tmp/said | grep -q '^  [A-Za-z]' || wrong "no remedy"
	$through "$check" --json "$@" | grep -q "\"status\": $status, \"cause\": \"$cause\"" || wrong "JSON tells another"
}

# limited KIB COMMAND...: as a user who may lock so much.
limited()
(
	ulimit -l "$1"
	shift
	as_user "$@"
)

start check_works
"$check" >/tmp/said 2>&1 || wrong "exit status $?"
cat /tmp/said
grep -qx 'All works\.' /tmp/said || wrong "not all works"
end

start check_memlock
provokes memlock 100 limited 4096 -- --size 64M
end

start check_memlock_zero
provokes memlock-zero 101 limited 0 -- --size 1M
end

start check_memory
provokes unmapped 41 -- unmapped
provokes read-only 42 -- read-only
provokes no-access 43 -- no-access
provokes device-mapping 44 -- --size 4K device-mapping
provokes not-pinnable 45 -- short-file
end

start check_nic
chmod 600 /dev/infiniband/uverbs0
provokes nic-permission 75 as_user --
chmod 666 /dev/infiniband/uverbs0
chmod 600 /dev/infiniband/rdma_cm
provokes cm-permission 84 as_user --
chmod 666 /dev/infiniband/rdma_cm
providers=/usr/lib/x86_64-linux-gnu/libibverbs
mv $providers $providers.away
provokes nic-provider 76 -- --nic rxe0
mv $providers.away $providers
library=/usr/lib/x86_64-linux-gnu/libibverbs.so.1
mv $library $library.away
provokes nic-library 72 --
mv $library.away $library
mv /dev/infiniband /dev/infiniband.away
provokes nic-file 74 -- --nic rxe0
mv /dev/infiniband.away /dev/infiniband
ip link set wire0 down
until_ok 10 grep -q DOWN /sys/class/infiniband/rxe0/ports/1/state || wrong "the port stays up"
provokes nic-port-down 79 -- --nic rxe0
ip link set wire0 up
until_ok 10 port_ready rxe0 || wrong "the port stays down"
end

finish
