#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Devices that cannot be used: each reason has its code and one line that names it.
# Usage: refusals.sh VM_LOOKUP
. /job/lib.sh
lookup=$1
export FI_LOG_LEVEL=warn

# asks NAME CODE TEXT [COMMAND...]: the look-up of NAME (through the command) ends with this code, and one
# line of the library has the text.  With wish=rma, FI_RMA is asked for.
wish=
asks()
{
	name=$1 code=$2 text=$3
	shift 3
	"$@" "$lookup" "$name" $wish >/tmp/said 2>/tmp/lines || wrong "vm_lookup: exit status $?"
	cat /tmp/said /tmp/lines
	[ "$(tail -n 1 /tmp/said)" = "fi_getinfo $code" ] || wrong "expected fi_getinfo $code"
	# libibverbs has lines of its own.
	lines=$(grep -c '^libfabric\|^hmreg' /tmp/lines)
	[ "$lines" -eq 1 ] || wrong "expected one line of the library, got $lines"
	grep -q -- "$text" /tmp/lines || wrong "no line has \"$text\""
}

# works [COMMAND...]: the device can be used (by the command).
works()
{
	"$@" "$lookup" rxe0 >/tmp/said 2>&1 && grep -qx 'close 0' /tmp/said && grep -qx 'fi_endpoint 0' /tmp/said || {
		cat /tmp/said
		wrong "the device does not work"
	}
}

# registers CODE TEXT [COMMAND...]: the device can be used for regions, endpoints are refused, and who
# asks for them gets this code; the text is in the one line of the library, each time.
registers()
{
	code=$1 text=$2
	shift 2
	"$@" "$lookup" rxe0 >/tmp/said 2>/tmp/lines || wrong "vm_lookup: exit status $?"
	cat /tmp/said /tmp/lines
	grep -qx 'close 0' /tmp/said || wrong "no region"
	grep -qx 'fi_endpoint -95' /tmp/said || wrong "expected fi_endpoint -95"
	[ "$(grep -c '^libfabric\|^hmreg' /tmp/lines)" -eq 1 ] && grep -q -- "$text" /tmp/lines ||
		wrong "expected one line with \"$text\""
	wish=rma
	asks rxe0 "$code" "$text" "$@"
	wish=
}

# no_address: the device's table has no address of its interface any more.
no_address()
{
	! cat /sys/class/infiniband/rxe0/ports/1/gids/? 2>/dev/null |
		grep -v '^fe80:\|^0000:0000:0000:0000:0000:0000:0000:0000' | grep -q .
}

start refusals_device_works
works
works as_user
end

start refusals_no_such_device
asks rxe9 -61 rxe9
end

start refusals_no_permission
chmod 600 /dev/infiniband/uverbs0
asks rxe0 -13 /dev/infiniband/uverbs0 as_user
works
chmod 666 /dev/infiniband/uverbs0
end

start refusals_no_permission_for_connections
chmod 600 /dev/infiniband/rdma_cm
registers -13 /dev/infiniband/rdma_cm as_user
chmod 666 /dev/infiniband/rdma_cm
works as_user
end

start refusals_port_down
ip link set wire0 down
until_ok 10 grep -q DOWN /sys/class/infiniband/rxe0/ports/1/state || wrong "the port stays up"
asks rxe0 -19 "is down"
ip link set wire0 up
until_ok 10 port_ready rxe0 || wrong "the port stays down"
works
end

# Regions need no address: only endpoints do.
start refusals_no_address_registers
ip -4 addr flush dev wire0
ip -6 addr flush dev wire0
until_ok 10 no_address || wrong "the addresses stay"
registers -61 "no IP address"
ip addr add 198.51.100.1/24 dev wire0
until_ok 10 port_ready rxe0 || wrong "no address comes"
works
end

start refusals_no_provider
providers=/usr/lib/x86_64-linux-gnu/libibverbs
mv $providers $providers.away
asks rxe0 -19 provider
mv $providers.away $providers
works
end

start refusals_no_library
library=/usr/lib/x86_64-linux-gnu/libibverbs.so.1
mv $library $library.away
asks rxe0 -19 libibverbs.so.1
mv $library.away $library
works
end

start refusals_no_device_file
mv /dev/infiniband /dev/infiniband.away
asks rxe0 -19 /dev/infiniband
mv /dev/infiniband.away /dev/infiniband
works
end

finish
