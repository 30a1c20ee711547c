#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-rma between two processes on two devices: every byte is checked at both ends.
# Usage: tool.sh HMREG_RMA
. /job/lib.sh
tool=$1
export FI_LOG_LEVEL=warn
size="--max 256K --iters 3 --no-progress"

serving()
{
	grep -q serves /tmp/server || ! kill -0 "$server" 2>/dev/null
}

sent()
{
	cat /sys/class/net/wire0/statistics/tx_bytes
}

# busy: data goes over the wire.
busy()
{
	[ $(($(sent) - before)) -gt 1000000 ]
}

# between NAME SERVER-DEVICE ADDRESS SERVER-OPTIONS...
between()
{
	start "$1"
	device=$2 address=$3
	shift 3
	# shellcheck disable=SC2086
	"$tool" -d "$device" --server --bind "$address" --timeout 20 $size "$@" >/tmp/server 2>&1 &
	server=$!
	until_ok 30 serving || wrong "the server does not get ready"
	# shellcheck disable=SC2086
	"$tool" -d rxe0 --client "$address" --timeout 20 $size || wrong "client: exit status $?"
	# A server that nobody has come to would wait on.
	[ -z "$wrong" ] || kill "$server" 2>/dev/null
	wait $server || wrong "server: exit status $?"
	cat /tmp/server
	grep -q '^served client .* 0 wrong$' /tmp/server || wrong "the server did not find every byte right"
	end
}

between tool_two_processes rxe1 198.51.100.2
# On one device: with both ends in one system, the kernel turns a connection by IPv6 between them down.
between tool_ipv6 rxe0 fd00::1
between tool_dmabuf rxe1 198.51.100.2 --dmabuf

start tool_no_server
# shellcheck disable=SC2086
"$tool" -d rxe0 --client 198.51.100.2 --timeout 10 $size
status=$?
[ $status -eq 4 ] || wrong "expected exit status 4, got $status"
end

# The server is killed under traffic: the client ends by itself, and says why in one line.  Whether it is
# an operation or the wait for an answer that fails depends on the moment.
start tool_server_killed
"$tool" -d rxe1 --server --bind 198.51.100.2 --timeout 20 --max 256K --no-progress >/tmp/server 2>&1 &
server=$!
until_ok 30 serving || wrong "the server does not get ready"
"$tool" -d rxe0 --client 198.51.100.2 --timeout 20 --min 64K --max 256K --iters 100000 --ops write \
	--no-progress >/tmp/client 2>&1 &
client=$!
before=$(sent)
until_ok 20 busy || wrong "no traffic"
kill -9 $server
wait $server
wait $client
status=$?
cat /tmp/client
[ $status -eq 4 ] || wrong "expected exit status 4, got $status"
[ "$(grep -c '^hmreg-rma: ' /tmp/client)" -eq 1 ] || wrong "the client does not say why in one line"
end

start tool_one_process
# shellcheck disable=SC2086
"$tool" -d rxe0 $size || wrong "exit status $?"
end
finish
