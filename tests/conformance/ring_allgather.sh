#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# ring_allgather: host memory on every profile, odd sizes, emulated accelerators and RDMA devices, and the choice of
# NICs and neighbours on machines whose sysfs make_machine makes.
# Usage: ring_allgather.sh RING-ALLGATHER MAKE-MACHINE ACCELERATOR-DRIVERS
set -u
ring=$1 make=$2 drivers=$3
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL
verbs=${LD_LIBRARY_PATH:-}
devices=devices=8

# gives STATUS ARGUMENTS...: runs it; what it prints is in out and err.
gives()
{
	want=$1
	shift
	timeout 60 "$ring" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq "$want" ] || {
		echo "exit status $got, expected $want: $*"
		return 1
	}
}

# on MACHINE INTERFACE ARGUMENTS...
on()
{
	machine=$1 iface=$2
	shift 2
	folder=$scratch/$machine
	[ -d "$folder" ] || { mkdir "$folder" && "$make" "$machine" "$folder" user; } || return 1
	HMREG_SYSFS=$folder FI_HMEM=$iface EMU_CUDA=devices=8 EMU_ROCR=devices=8 HMREG_EMU_VERBS=$devices \
		LD_LIBRARY_PATH=$drivers/$iface:$verbs gives 0 "$@"
}

says()
{
	grep -q -- "$1" "$scratch/err" || {
		echo "it does not say \"$1\""
		return 1
	}
}

# matrix N: N rows of N cells, "-" where row and column are one, else a number above 0.
matrix()
{
	awk -v n="$1" '
	/^MB\/s/ { on = 1; next }
	on && /:/ {
		if (NF != n + 1) bad = 1
		for (i = 0; i < n; i++)
			if (i == rows ? $(i + 2) != "-" : !($(i + 2) > 0)) bad = 1
		rows++
	}
	END { exit bad || rows != n }' "$scratch/out" || { echo "the matrix is wrong"; return 1; }
}

profiles()
{
	for profile in sw-scalable sw-verbs sw-strict sw-any; do
		gives 0 $profile --ranks 4 --size 256K --chunk 16K && has '^all-gather: 4 ranks .* every byte right$' &&
			has "^   3 .* $profile: in software" && matrix 4 || return 1
	done
}

sizes()
{
	for size in 1 4095 4096 100001; do
		gives 0 sw-verbs --ranks 5 --size $size --chunk 4K && has 'every byte right' && matrix 5 || return 1
	done
	gives 0 --size 0 --ranks 3 && has 'of 0 bytes' && ! grep -q '^MB/s' "$scratch/out" || return 1
	gives 0 --ranks 2 --size 64K && matrix 2 && gives 0 --ranks 16 --size 1K --iters 1 && matrix 16
}

one_rank()
{
	gives 0 --ranks 1 --size 64K && has '^one rank has nobody to gather from$'
}

finds_one_wrong_byte()
{
	gives 1 sw-scalable --ranks 4 --size 10000 --spoil 2 &&
		says '^rank 2: byte 9999 of the block of rank 3 is 0x.. and should be 0x..$' && [ ! -s "$scratch/out" ]
}

wrong_options()
{
	for options in '--size -1' '--size 1Q' '--ranks 0' '--ranks 17' '--nodes 2' '--at 127.0.0.1:1' \
		'--nodes 2 --node 2 --at 127.0.0.1:1' '--ranks 2 --iface cuda' 'sw-any sw-verbs' '--chunk 0' '--what' \
		'--size 4G --chunk 1'; do
		# shellcheck disable=SC2086
		gives 2 $options || return 1
	done
	gives 1 nothing && says '^no NIC nothing '
}

# Two processes cannot meet there: said before anything is tried.
software_is_one_process()
{
	gives 1 sw-strict --nodes 2 --at 127.0.0.1:9 --ranks 1 && says 'the software NIC .* one process only'
}

no_accelerator()
{
	FI_HMEM=none gives 77 --iface cuda && says 'skipped: no accelerator of the interface cuda'
}

# Each of 8 GPUs takes a NIC of its own behind its switch; the ring goes over the link between sockets twice.
takes_the_nearest()
{
	on dgx cuda --size 20000 --chunk 8K || return 1
	for i in 0 1 2 3 4 5 6 7; do
		has "^   $i .* cuda:$i  *emu$i: one switch" || return 1
	done
	has '^ring: 0 (one switch) 1 (one NUMA node) 2 .* 3 (another socket) 4 .* 7 (another socket) 0$' && matrix 8
}

# GPUs 1 and 4 change places: each takes a NIC of where it is now, and has other neighbours.
follows_the_machine()
{
	mkdir "$scratch/moved" && "$make" dgx "$scratch/moved" user || return 1
	here=$(readlink "$scratch/moved/bus/pci/devices/0000:37:00.0")
	there=$(readlink "$scratch/moved/bus/pci/devices/0000:97:00.0")
	(
		cd "$scratch/moved/bus/pci/devices" || exit 1
		mv "$here" "$(dirname "$there")/" && mv "$there" "$(dirname "$here")/" &&
			ln -sfn "$(dirname "$there")/0000:37:00.0" 0000:37:00.0 &&
			ln -sfn "$(dirname "$here")/0000:97:00.0" 0000:97:00.0 &&
			cp 0000:d7:00.0/numa_node 0000:37:00.0/ && cp 0000:17:00.0/numa_node 0000:97:00.0/
	) || return 1
	on moved cuda --size 20000 --chunk 8K || return 1
	has '^   4 .* cuda:4  *emu[01]: one switch' && has '^   1 .* cuda:1  *emu[45]: one switch' &&
		has '^ring: 0 (one switch) 4 (one NUMA node) 2 (one switch) 3 (another socket) 1 (one switch) 5 ' && matrix 8
}

# Both NICs of the switch are used by both of its GPUs, and each rank's chunks go over both.
rails()
{
	on dgx cuda --size 100001 --chunk 4K --rails 2 --iters 1 && has '^   0 .* emu0+emu1: one switch' &&
		has '^   7 .* emu7+emu6: ' && has ', 2 rails, ' && matrix 8 || return 1
	on hgx cuda --size 4K --rails 2 --iters 1 && has '^2 rails were asked for, and each rank has 1 ' || return 1
	on dgx none --ranks 4 --rails 4 --size 100001 --chunk 4K --iters 1 && has ', 4 rails, ' && matrix 4
}

# Switches behind switches, with ROCr; and what has no place.
other_machines()
{
	on oam rocr --size 20000 --iters 1 && has '^   5 .* rocr:5  *emu5: one root port' &&
		has '^ring: 0 .* 3 (another socket) 4 .* 7 (another socket) 0$' && matrix 8 || return 1
	on cloud cuda --size 20000 --iters 1 && has '^   5 .* cuda:5  *emu5: one NUMA node' || return 1
	on flat cuda --size 20000 --iters 1 && has '^   5 .*: place not known, .*sysfs does not show'
}

json()
{
	on dgx cuda --size 20000 --iters 1 --json || return 1
	command -v python3 >/dev/null 2>&1 || return 0
	python3 - "$scratch/out" <<-'END'
		import json, sys
		t = json.load(open(sys.argv[1]))
		assert [r["nics"] for r in t["ranks"]] == [["emu%d" % i] for i in range(8)]
		assert sorted(t["ring"]) == list(range(8)) and t["verified"] and t["size"] == 20000
		assert [r["to_next"] for r in t["ranks"]].count("another socket") == 2
		assert t["best_ms"] > 0 and abs(t["bus_mb_s"] / t["algorithm_mb_s"] - 7 / 8) < 0.001
		p = t["pairs_mb_s"]
		assert all((p[i][k] is None) == (i == k) for i in range(8) for k in range(8))
	END
}

# The library's own words.
refusals()
{
	HMREG_EMU_VERBS=devices=2,memlock=9M gives 1 emu0 --ranks 4 --size 4M &&
		says '^registration of host with NIC emu0 is refused: .*memory' || return 1
	devices=devices=8,dmabuf=0
	! on dgx cuda emu0 --size 4K && says '^NIC emu0 does not reach cuda:0: '
	got=$?
	devices=devices=8
	return $got
}

attempt ring_of_host_memory profiles
attempt ring_sizes sizes
attempt ring_of_one one_rank
attempt ring_finds_one_wrong_byte finds_one_wrong_byte
attempt ring_wrong_options wrong_options
attempt ring_software_is_one_process software_is_one_process
attempt ring_no_accelerator no_accelerator
attempt ring_takes_the_nearest_nic takes_the_nearest
attempt ring_follows_the_machine follows_the_machine
attempt ring_rails rails
attempt ring_other_machines other_machines
attempt ring_json json
attempt ring_refusals refusals
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
