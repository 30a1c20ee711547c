#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-rma between two processes on two devices: every byte is checked at both ends.
# Usage: tool.sh HMREG_RMA
. /job/lib.sh
tool=$1
export FI_LOG_LEVEL=warn
size="--max 256K --iters 20 --no-progress"

serving()
{
	grep -q serves /tmp/server || ! kill -0 "$server" 2>/dev/null
}

# between NAME ADDRESS SERVER-OPTIONS...
between()
{
	start "$1"
	address=$2
	shift 2
	# shellcheck disable=SC2086
	"$tool" -d rxe1 --server --bind "$address" --timeout 20 $size "$@" >/tmp/server 2>&1 &
	server=$!
	until_ok 30 serving || wrong "the server does not get ready"
	# shellcheck disable=SC2086
	"$tool" -d rxe0 --client "$address" --timeout 20 $size || wrong "client: exit status $?"
	wait $server || wrong "server: exit status $?"
	cat /tmp/server
	grep -q '^served client .* 0 wrong$' /tmp/server || wrong "the server did not find every byte right"
	end
}

between tool_two_processes 198.51.100.2
between tool_ipv6 fd00::2
between tool_dmabuf 198.51.100.2 --dmabuf

start tool_no_server
# shellcheck disable=SC2086
"$tool" -d rxe0 --client 198.51.100.2 --timeout 10 $size
status=$?
[ $status -eq 4 ] || wrong "expected exit status 4, got $status"
end

start tool_one_process
# shellcheck disable=SC2086
"$tool" -d rxe0 $size || wrong "exit status $?"
end
finish
