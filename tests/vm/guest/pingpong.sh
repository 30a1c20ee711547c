#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The programs that come with Debian's libfabric, over the plug-in and real RDMA devices, as an ordinary user.
# Usage: pingpong.sh FI_INFO FI_PINGPONG FOLDER-OF-THE-PLUG-IN
. /job/lib.sh
fi_info=$1 fi_pingpong=$2
export FI_PROVIDER_PATH="$3"

# fi_pingpong registers 12 MiB, and the system allows its users 8.
allow_locking()
{
	ulimit -l 32768
}

# Port 47592, where the server waits for its client's first words.
listens()
{
	grep -q ':B9E8 .* 0A ' /proc/net/tcp /proc/net/tcp6 || ! kill -0 "$server" 2>/dev/null
}

sent()
{
	cat /sys/class/net/wire0/statistics/tx_bytes
}

# pingpong SERVER-OPTIONS -- CLIENT-OPTIONS: every byte is checked; leaves the answers in /tmp/server and /tmp/client.
pingpong()
{
	server_options=
	while [ "$1" != -- ]; do
		server_options="$server_options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	as_user "$fi_pingpong" -p hmreg -e rdm -c $server_options >/tmp/server 2>&1 &
	server=$!
	until_ok 30 listens || wrong "the server does not get ready"
	client_status=0 server_status=0
	as_user timeout 100 "$fi_pingpong" -p hmreg -e rdm -c "$@" 127.0.0.1 >/tmp/client 2>&1 ||
		client_status=$?
	wait $server || server_status=$?
}

# works: both ended well, and tell of each size.
works()
{
	if [ $client_status -ne 0 ] || [ $server_status -ne 0 ]; then
		cat /tmp/server /tmp/client
		wrong "exit statuses: client $client_status, server $server_status"
	fi
	for size in 64 256 1k 4k 64k 1m; do
		grep -q "^$size " /tmp/client && grep -q "^$size " /tmp/server ||
			wrong "no line for messages of $size"
	done
}

start fi_info_lists_the_devices
as_user "$fi_info" -p hmreg >/tmp/list || wrong "exit status $?"
for domain in rxe0 rxe1 sw-scalable sw-verbs sw-strict sw-any; do
	grep -qx " *domain: $domain" /tmp/list || wrong "no domain $domain"
done
end

start fi_info_names_the_software_nic_to_nobody_else
as_user "$fi_info" >/tmp/list 2>&1 || wrong "exit status $?"
grep -qx " *domain: rxe0" /tmp/list || wrong "no domain rxe0"
! grep -q "domain: sw-" /tmp/list || wrong "it is listed"
end

start fi_pingpong_says_what_limit_is_reached
FI_LOG_LEVEL=warn pingpong -- -I 1
[ $client_status -ne 0 ] && [ $server_status -ne 0 ] || wrong "it works with 8 MiB of locked memory"
[ "$(grep -c RLIMIT_MEMLOCK /tmp/server)" -eq 1 ] || wrong "no line, or several, of the limit"
grep -q 'libfabric:.*:hmreg:mr:' /tmp/server || wrong "not by libfabric's log"
end

allow_locking || exit 1
start fi_pingpong_on_one_device
pingpong -d rxe0 -- -d rxe0
works
end

start fi_pingpong_between_two_devices
before=$(sent)
pingpong -d rxe1 -- -d rxe0
works
[ $(($(sent) - before)) -gt 1000000 ] || wrong "nothing went over the wire"
end
finish
