#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# ring_allgather in two processes, on two devices: every byte is compared at every rank.
# Usage: allgather.sh RING_ALLGATHER CUDA-DRIVER-FOLDER
. /job/lib.sh
ring=$1 drivers=$2
export FI_LOG_LEVEL=warn
place=127.0.0.1:4711

sent()
{
	cat /sys/class/net/wire0/statistics/tx_bytes
}

# both OPTIONS...: as two nodes, with the NICs of $nic0 and $nic1; node 1 has the options of $more as well.  Leaves
# status0, status1, /tmp/node0 and /tmp/node1.
more= nic0=rxe0 nic1=rxe1
both()
{
	status0=0 status1=0
	# shellcheck disable=SC2086
	timeout 60 "$ring" $nic1 --nodes 2 --node 1 --at $place "$@" $more >/tmp/node1 2>&1 &
	other=$!
	# shellcheck disable=SC2086
	timeout 60 "$ring" $nic0 --nodes 2 --node 0 --at $place "$@" >/tmp/node0 2>&1 || status0=$?
	wait $other || status1=$?
	cat /tmp/node0
}

# right N: both ended well, N ranks have everything, and there is a figure for each pair.
right()
{
	[ $status0 -eq 0 ] && [ $status1 -eq 0 ] || {
		cat /tmp/node1
		wrong "exit statuses $status0 and $status1"
	}
	for node in 0 1; do
		grep -q "^all-gather: $1 ranks .* every byte right$" /tmp/node$node || wrong "node $node does not say so"
		[ "$(sed '1,/^MB/d' /tmp/node$node | grep -cE "^ +[0-9]+:( +([1-9][0-9]*\.[0-9]|0\.[1-9]|-)){$1}$")" -eq "$1" ] ||
			wrong "node $node: not a figure for each pair"
	done
}

start allgather_two_processes
before=$(sent)
both --ranks 2 --size 100001 --chunk 8K --iters 2
right 4
[ $(($(sent) - before)) -gt 400000 ] || wrong "nothing went over the wire"
grep -q '^   0    0 host  *rxe0: ' /tmp/node0 && grep -q '^   3    1 host  *rxe1: ' /tmp/node0 || wrong "the NICs are others"
grep -q '^ring: 0 (host memory) 1 (the network) 2 (host memory) 3 (the network) 0$' /tmp/node0 || wrong "the ring is another"
end

start allgather_nodes_of_different_size
more="--ranks 3" both --ranks 1 --size 5000 --chunk 4K --iters 1
right 4
end

start allgather_two_rails
nic0='' nic1='' both --ranks 2 --rails 2 --size 50000 --chunk 4K --iters 1
right 4
grep -q '^   0    0 host  *rxe[01]+rxe[01]: ' /tmp/node0 && grep -q ', 2 rails, ' /tmp/node0 || wrong "not on both NICs"
end

# Exported as dma-bufs, which the kernel's driver maps.
start allgather_accelerators
export LD_LIBRARY_PATH="$drivers" EMU_CUDA=devices=2
both --iface cuda --size 50000 --chunk 8K --iters 1
unset LD_LIBRARY_PATH
right 4
grep -q '^   3    1 cuda:1  *rxe1: ' /tmp/node0 || wrong "not the accelerators' memory"
end

start allgather_one_process
"$ring" rxe0 --ranks 3 --size 20000 --iters 1 >/tmp/out 2>&1 || wrong "exit status $?"
cat /tmp/out
grep -q 'every byte right$' /tmp/out || wrong "it does not say so"
end

start allgather_different_sizes
more="--size 4096" both --ranks 1 --size 8192
[ $status0 -eq 1 ] && [ $status1 -eq 1 ] || wrong "exit statuses $status0 and $status1, expected 1"
for node in 0 1; do
	grep -q '^node 0 has --size 8192 .* node 1 4096, ' /tmp/node$node || wrong "node $node does not say what differs"
done
end

start allgather_nobody_comes
timeout 30 "$ring" rxe0 --nodes 2 --node 0 --at $place --ranks 1 --timeout 2 >/tmp/node0 2>&1
[ $? -eq 1 ] && grep -q '^1 of 2 nodes have come within 2 seconds$' /tmp/node0 || wrong "$(cat /tmp/node0)"
timeout 30 "$ring" rxe0 --nodes 2 --node 1 --at $place --ranks 1 --timeout 2 >/tmp/node1 2>&1
[ $? -eq 1 ] && grep -q "^node 0 at $place: Connection refused$" /tmp/node1 || wrong "$(cat /tmp/node1)"
end

# Under traffic: whether a write fails first or the connection of the nodes depends on the moment.
busy()
{
	[ $(($(sent) - before)) -gt 1000000 ]
}

# under_traffic SIGNAL OPTIONS...: node 1 gets it in the middle; node 0 has to end by itself, within 15 seconds.
under_traffic()
{
	signal=$1
	shift
	"$ring" rxe1 --nodes 2 --node 1 --at $place --ranks 1 --size 256K --iters 100000 >/tmp/node1 2>&1 &
	other=$!
	timeout 60 "$ring" rxe0 --nodes 2 --node 0 --at $place --ranks 1 --size 256K --iters 100000 "$@" \
		>/tmp/node0 2>&1 &
	one=$!
	before=$(sent)
	until_ok 30 busy || wrong "no traffic"
	begun=$(date +%s)
	kill -"$signal" $other
	wait $one
	status=$?
	took=$(($(date +%s) - begun))
	[ "$signal" = 9 ] || kill -9 $other
	wait $other
	cat /tmp/node0
	[ $status -eq 1 ] || wrong "expected exit status 1, got $status"
	[ $took -le 15 ] || wrong "it took $took seconds"
}

start allgather_a_node_is_killed
under_traffic 9
grep -qE '^node 1 has ended|^rank 0 .* to rank 1[ :]' /tmp/node0 || wrong "it does not say that the peer is gone"
end

start allgather_a_node_stands_still
under_traffic STOP --timeout 3
grep -qE '^nothing has moved for 3 seconds$|^node 1 has been silent for 3 seconds$|^rank 0 .* to rank 1[ :]' /tmp/node0 ||
	wrong "it does not say what it has waited for"
end
finish
