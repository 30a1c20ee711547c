#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The bench's own two devices: what one writes to the other does cross the wire.
# Usage: wire.sh VM_RAW
. /job/lib.sh

sent()
{
	cat /sys/class/net/wire0/statistics/tx_bytes
}

start wire_carries_traffic
before=$(sent)
"$1" rxe0 rxe1 || wrong "$1 failed"
bytes=$(($(sent) - before))
echo "$bytes bytes went over the wire"
# Five buffers of 64 KiB are written, and as many read.
[ $bytes -gt 327680 ] || wrong "too few"
end
finish
