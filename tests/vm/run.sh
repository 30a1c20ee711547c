#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs a program in a virtual machine that has a real RDMA driver (rxe); builds the image first, if need
# be.  What the program prints comes out here, and its exit status is ours.
# Usage: tests/vm/run.sh [OPTION...] [--] PROGRAM [ARGUMENT...]
#   PROGRAM             a file on this machine, which comes along with its shared libraries and keeps its
#                       place, or the name of a program that the machine has (busybox, ip, rdma, ...)
#   --add FILE[:PLACE]  another file, a program or not; as often as needed
#   --user              as uid 1000, not as root
#   --devices WHAT      wire (default): rxe0 on one end of a wire (a veth pair), 198.51.100.1 and fd00::1;
#                       wires: rxe1 on the other end too, 198.51.100.2 and fd00::2;
#                       lo: rxe0 on the loopback interface, where rdma_cm finds no route; none
#   --no-rdma           without the kernel modules for RDMA, so without devices too
#   --stock-windows     without the part that lets the driver keep to the ends of memory windows
#   --no-preload        without the part that lets ibv_reg_dmabuf_mr() reach the kernel
#   --env NAME=VALUE    sets a variable; HMREG_* ones that are set here are set there too
#   --memory MIB        the machine's memory (default: 640)
#   --processors N      how many it has (default: 2)
#   --timeout SECONDS   when to give up (default: 120)
# Example: tests/vm/run.sh --env HMREG_TEST_DOMAIN=rxe0 build/debug/tests/conformance/conf_rma
# Exit status: the program's; 77 no virtual machine can be had here, with the reason; 99 the program
# succeeded or not, but the kernel complained; 124 the time was up; 125 the machine broke.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
start=$PWD
cd "$tree"
. tests/vm/lib.sh
libraries=/usr/lib/x86_64-linux-gnu

# TCG emulates the processors, both in one thread: with a thread for each, QEMU 7.2 now and then runs an
# instruction that the kernel has just patched in its old form, and the kernel stops ("Oops: int3").
# HMREG_VM_ACCEL=kvm, where it is allowed, is about ten times as fast.
accelerator=${HMREG_VM_ACCEL:-tcg,thread=single}
memory=640 processors=2 seconds=120 devices=wire without= user= preload=$libraries/librxe_dmabuf.so

# Initcalls that take long and that nothing here needs.
blacklist=load_system_certificate_list,init_kprobe_trace,init_encrypted,init_trusted,init_zswap
blacklist=$blacklist,crypto_kdf108_init,cmos_init,tpm_init
command_line="console=ttyS0 loglevel=1 panic=-1 reboot=t cryptomgr.notests tsc=reliable no_timer_check
	mitigations=off lsm= audit=0 init_on_alloc=0 rcupdate.rcu_expedited=1 8250.nr_uarts=1 i8042.nopnp
	i8042.noaux i8042.nokbd initcall_blacklist=$blacklist"

usage()
{
	sed -n '/^# Runs/,/^set/s/^# \{0,1\}//p' "$0"
}

# quote TEXT: as one word of a shell.
quote()
{
	printf "'"
	printf '%s' "$1" | sed "s/'/'\\\\''/g"
	printf "'"
}

# absolute FILE: as the caller meant it.
absolute()
{
	case $1 in
	/*) printf '%s\n' "$1" ;;
	*) printf '%s\n' "$start/$1" ;;
	esac
}

# The variables of the job, one setting a line.
variables()
{
	for name in $(env | sed -n 's/^\(HMREG_[A-Z0-9_]*\)=.*/\1/p'); do
		case $name in
		HMREG_VM_*) continue ;;
		esac
		eval "value=\${$name-}"
		printf 'export %s=' "$name"
		quote "$value"
		echo
	done
}

# add FILE[:PLACE]
add()
{
	file=$(absolute "${1%%:*}")
	place=$file
	case $1 in
	*:*) place=${1#*:} ;;
	esac
	if [ ! -f "$file" ]; then
		echo "error: no such file: $file" >&2
		exit 2
	fi
	hm_vm_copy "$root" "$file" "$place"
	# A sanitizer's library has to be the first one.
	sanitizer=$(ldd "$file" 2>/dev/null | sed -n 's/.*=> \(\/.*lib[at]san\.so[^ ]*\) (0x.*/\1/p')
	if [ -n "$sanitizer" ]; then
		case $preload in
		*san.so*) ;;
		*) preload=$sanitizer${preload:+:$preload} ;;
		esac
	fi
}

parse_options()
{
	while [ $# -gt 0 ]; do
		case $1 in
		--add)
			add "${2:?a file expected}"
			shift
			;;
		--user) user=yes ;;
		--devices)
			devices=${2:?wire, wires, lo or none expected}
			shift
			;;
		--no-rdma)
			without="ib_core ib_uverbs rdma_rxe ib_cm iw_cm rdma_cm rdma_ucm rxe_dmabuf rxe_windows"
			devices=none
			;;
		--stock-windows) without="$without rxe_windows" ;;
		--no-preload) preload= ;;
		--env)
			printf 'export %s=' "${2%%=*}" >>"$scratch/variables"
			quote "${2#*=}" >>"$scratch/variables"
			echo >>"$scratch/variables"
			shift
			;;
		--memory)
			memory=${2:?MiB expected}
			shift
			;;
		--processors)
			processors=${2:?a number expected}
			shift
			;;
		--timeout)
			seconds=${2:?seconds expected}
			shift
			;;
		--)
			shift
			break
			;;
		-*)
			usage >&2
			exit 2
			;;
		*) break ;;
		esac
		shift
	done
	if [ $# -eq 0 ]; then
		usage >&2
		exit 2
	fi
	program=$1
	shift
	case $program in
	*/*)
		program=$(absolute "$program")
		add "$program"
		;;
	esac
	words=$(quote "$(hm_vm_path "$program")")
	for word in "$@"; do
		words="$words $(quote "$word")"
	done
}

# The script that the machine runs, and what it reads.
write_job()
{
	mkdir -p "$root/job"
	echo "$devices" >"$root/job/devices"
	echo "$without" >"$root/job/without-modules"
	cp tests/vm/guest/lib.sh "$root/job/lib.sh"
	{
		variables
		cat "$scratch/variables"
		# Tells the host that the machine itself is up; the exit status follows.
		echo "printf s | dd of=/dev/port bs=1 seek=233 conv=notrunc 2>/dev/null"
		echo "cd /tmp"
		[ -z "$preload" ] || echo "export LD_PRELOAD=$(quote "$preload")"
		echo "exec ${user:+/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups --} $words"
	} >"$root/job/run"
}

# Ends QEMU first, whatever ends us: each process of the chain is killed with the one that started it.
stop()
{
	trap - EXIT
	[ -z "$child" ] || kill "$child" 2>/dev/null || true
	rm -rf "$scratch"
	exit "$1"
}

boot()
{
	: >"$scratch/status"
	# shellcheck disable=SC2086
	setpriv --pdeathsig TERM timeout --foreground -k 5 "$seconds" setpriv --pdeathsig KILL \
		qemu-system-x86_64 -machine q35 -accel "$accelerator" -cpu max -m "$memory" -smp "$processors" \
		-nodefaults -no-user-config -no-reboot -display none -serial stdio -monitor none \
		-device isa-debugcon,iobase=0xe9,chardev=status \
		-chardev "file,id=status,path=$scratch/status" \
		-device isa-debug-exit,iobase=0xf4,iosize=4 \
		-kernel "$hm_vm/vmlinux" -initrd "$scratch/initrd" \
		-append "$(echo $command_line)" </dev/null &
	child=$!
	qemu=0
	wait $child || qemu=$?
	child=
}

# started: the program has begun; whether it has ended does not matter.
started()
{
	[ "$(head -c 1 "$scratch/status")" = s ]
}

case ${1:-} in
-h | --help)
	usage
	exit 0
	;;
"") # before the image is built
	usage >&2
	exit 2
	;;
esac
child= begun=115 # the letter s
scratch=$(mktemp -d)
root=$scratch/root
mkdir "$root"
: >"$scratch/variables"
trap 'stop $?' EXIT
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

sh tests/vm/build.sh
# The image stays as it is while it is in use: QEMU holds this too.
exec 9>>"$hm_vm/lock"
flock -s 9
cp "$hm_vm/base.list" "$root.base"
parse_options "$@"
write_job
{
	cat "$hm_vm/base.cpio"
	hm_vm_pack "$root"
} >"$scratch/initrd"
boot
if ! started && [ $qemu -ne 124 ] && [ $qemu -ne 137 ]; then
	echo "note: the virtual machine broke before the program began; it is started once more" >&2
	boot
fi
status=$(od -An -v -tu1 "$scratch/status")
# shellcheck disable=SC2086
set -- $status
if [ "${1:-}" = "$begun" ]; then
	shift
fi
if [ $# -gt 0 ]; then
	exit "$1"
fi
if [ $qemu -eq 124 ] || [ $qemu -eq 137 ]; then
	echo "error: the virtual machine was ended after $seconds s" >&2
	exit 124
fi
echo "error: the virtual machine broke; QEMU's exit status is $qemu" >&2
exit 125
