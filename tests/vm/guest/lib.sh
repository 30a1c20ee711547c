# SPDX-License-Identifier: BSD-2-Clause
# Read by the scripts that run inside the virtual machine:  . /job/lib.sh
# They print a line for each thing that they try, as all tests do, and end with `finish'.

tests=0 failures=0 skips=0

# start NAME
start()
{
	test_name=$1 wrong=
	tests=$((tests + 1))
	echo "[ RUN      ] $test_name"
}

# wrong TEXT: the test that was started fails, and goes on.
wrong()
{
	echo "$*"
	wrong=yes
}

# end: the result of what was started.
end()
{
	if [ -n "$wrong" ]; then
		failures=$((failures + 1))
		echo "[  FAILED  ] $test_name"
	else
		echo "[       OK ] $test_name"
	fi
}

# skip REASON: what was started cannot be tried.
skip()
{
	skips=$((skips + 1))
	echo "$*"
	echo "[  SKIPPED ] $test_name"
}

# as_user COMMAND...: as uid 1000.
as_user()
{
	/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups -- "$@"
}

# finish: the script's exit status.
finish()
{
	[ $failures -eq 0 ] || exit 1
	[ $tests -gt $skips ] || exit 77
	exit 0
}

# The shell prefers programs of busybox; these are the real ones.
ip()
{
	/usr/bin/ip "$@"
}

# The two ends of a wire; each has addresses of its own.
wire()
{
	ip link add wire0 type veth peer name wire1 || return 1
	for end in 0 1; do
		# Packets between two addresses of one system are taken from the wire too.
		echo 1 >/proc/sys/net/ipv4/conf/wire$end/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/wire$end/rp_filter
		echo 0 >/proc/sys/net/ipv6/conf/wire$end/accept_dad
		ip addr add 198.51.100.$((end + 1))/24 dev wire$end &&
			ip addr add fd00::$((end + 1))/64 dev wire$end nodad &&
			ip link set wire$end up || return 1
	done
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
}

# Packets from one end to the other go over the wire, although both addresses are local.  The rules hold
# for packets that start here ("iif lo"), not for those that arrive.
prefer_wire()
{
	for version in -4 -6; do
		ip $version rule add pref 100 lookup local && ip $version rule del pref 0 || return 1
	done
	for end in 0 1; do
		here=$((end + 1)) there=$((2 - end)) table=$((10 + end))
		ip -4 rule add pref 10 iif lo from 198.51.100.$here to 198.51.100.$there lookup $table &&
			ip -4 route add 198.51.100.$there dev wire$end src 198.51.100.$here table $table &&
			ip -6 rule add pref 10 iif lo from fd00::$here to fd00::$there lookup $table &&
			ip -6 route add fd00::$there dev wire$end src fd00::$here table $table || return 1
	done
}

# until_ok SECONDS COMMAND...: tries again until the command succeeds; false when it never does.
until_ok()
{
	rounds=$(($1 * 20))
	shift
	until "$@"; do
		rounds=$((rounds - 1))
		[ $rounds -gt 0 ] || return 1
		sleep 0.05
	done
}

# port_ready RDMA-DEVICE: active, and with an IPv4 address in its table.
port_ready()
{
	port=/sys/class/infiniband/$1/ports/1
	grep -q ACTIVE "$port/state" && cat "$port"/gids/? 2>/dev/null | grep -q '^0000:0000:0000:0000:0000:ffff:'
}

# device NAME INTERFACE: a software RDMA device, ready for use.
device()
{
	rdma link add "$1" type rxe netdev "$2" && until_ok 10 port_ready "$1"
}
