#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds the virtual machine's image: Debian's newer kernel (bookworm-backports) and what this machine
# has of rdma-core, iproute2 and busybox.  About half a minute; nothing to do when it is up to date.
# Usage: tests/vm/build.sh
# Environment: HMREG_VM_DIR is where it is kept (default: build/vm).  Remove that folder to get the
# newest kernel.
# Exit status: 0 there is an image, 1 it could not be built, 77 it cannot be had here, with the reason.
set -eu
cd "$(dirname "$0")/../.."
. tests/vm/lib.sh
here=$PWD/tests/vm

# Modules of the kernel package that are loaded at the start, and what these need.
modules="crc32_generic rdma_rxe rdma_ucm vgem veth"
# The version that rxe_dmabuf_user.c is written for; it also tries for itself.
rdma_core=44
libraries=/usr/lib/x86_64-linux-gnu
programs="rdma ip ibv_devinfo setpriv prlimit"

fail()
{
	echo "error: virtual machine: $*" >&2
	exit 1
}

unavailable()
{
	echo "No virtual machine: $*"
	exit 77
}

# What the image is made from, as one line to compare.
recipe()
{
	{
		cat "$here/build.sh" "$here/lib.sh" "$here/init" "$here/kernel.py" "$here/rxe_dmabuf.c" \
			"$here/rxe_dmabuf_user.c" "$here/rxe_windows.c"
		dpkg-query -W busybox-static ibverbs-providers ibverbs-utils iproute2 libc6 libibverbs1 \
			librdmacm1 util-linux
	} 2>&1 | sha256sum | cut -d ' ' -f 1
}

up_to_date()
{
	[ -s vmlinux ] && [ -s base.cpio ] && [ -s base.list ] && [ -s recipe ] &&
		[ "$(recipe)" = "$(cat recipe)" ]
}

# private_apt PROGRAM ARGUMENTS...: apt with a configuration and lists of its own, so that the system's
# stay as they are.
private_apt()
{
	program=$1
	shift
	"$program" -o APT::Sandbox::User="$(id -un)" -o Dir::Etc::sourcelist="$cache/apt/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$cache/apt/lists" \
		-o Dir::Cache="$cache/apt/cache" -o Acquire::Retries=3 -qq "$@"
}

# The mirror is the one that this machine gets Debian from.
write_sources()
{
	mirror=$(apt-get indextargets --format '$(CREATED_BY) $(CODENAME) $(COMPONENT) $(REPO_URI)' |
		awk '$1 == "Packages" && $2 == "bookworm" && $3 == "main" { print $4; exit }')
	[ -n "$mirror" ] || unavailable "apt knows no mirror of Debian bookworm"
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg options=
	[ ! -e $keyring ] || options="[signed-by=$keyring] "
	echo "deb $options$mirror bookworm-backports main" >apt/sources.list
}

# The packages of one kernel, whose version then stands in debs/version; nothing is installed.
download()
{
	[ ! -s debs/version ] || return 0
	rm -rf debs apt
	mkdir -p debs apt/lists/partial apt/cache/archives/partial
	write_sources
	private_apt apt-get update >apt.log 2>&1 ||
		unavailable "bookworm-backports cannot be read: $(tail -n 1 apt.log)"
	image=$(private_apt apt-cache depends linux-image-amd64 |
		awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
	version=${image#linux-image-}
	base=${version%-amd64}
	[ -n "$version" ] || fail "bookworm-backports has no linux-image-amd64"
	hm_vm_note "Downloads the kernel $version, 120 MB."
	(cd debs && private_apt apt-get download "$image" "linux-headers-$version" \
		"linux-headers-$base-common" "linux-kbuild-$base") >>apt.log 2>&1 ||
		unavailable "the kernel's packages cannot be downloaded: $(tail -n 1 apt.log)"
	echo "$version" >debs/version
}

# What the driver lacks: the kernel's half of dma-buf registration, and the ends of memory windows.
build_modules()
{
	headers=$cache/unpacked/kernel/usr/src/linux-headers-$version
	mkdir unpacked/module
	cp "$here/rxe_dmabuf.c" "$here/rxe_windows.c" unpacked/module/
	echo "obj-m := rxe_dmabuf.o rxe_windows.o" >unpacked/module/Makefile
	# The packages believe that they are installed.
	sed -i "s#include /usr/src/#include $cache/unpacked/kernel/usr/src/#" "$headers/Makefile"
	# Without type information, which nothing reads here and which takes one tool more.
	make -C "$headers" M="$cache/unpacked/module" CONFIG_DEBUG_INFO_BTF_MODULES= modules \
		>module.log 2>&1 || {
		tail -n 20 module.log >&2
		fail "the modules cannot be built for kernel $version"
	}
}

# The program's half.
build_preload()
{
	have=$(pkg-config --modversion libibverbs)
	case $have in
	1.*."$rdma_core".*) ;;
	*) fail "rxe_dmabuf_user.c is for rdma-core $rdma_core, and this is libibverbs $have" ;;
	esac
	cc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC \
		-o unpacked/librxe_dmabuf.so "$here/rxe_dmabuf_user.c" -ldl
}

# add_module FILE: unpacked and without what only debuggers read; the order file is the order to load in.
add_module()
{
	name=$(basename "$1" .xz)
	case $1 in
	*.xz) xz -dc "$1" >unpacked/unpacked.ko ;;
	*) cp "$1" unpacked/unpacked.ko ;;
	esac
	objcopy -g -R .BTF unpacked/unpacked.ko "$root/lib/modules/$name"
	echo "$name" >>"$root/lib/modules/order"
}

# The machine's file system, as small as can be.
build_root()
{
	root=$cache/unpacked/root
	mkdir -p "$root/usr/bin" "$root/usr/lib64" "$root$libraries/libibverbs" "$root/usr/lib/modules" \
		"$root/etc/libibverbs.d" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run" \
		"$root/job" "$root/root"
	for folder in bin lib lib64; do
		ln -s "usr/$folder" "$root/$folder"
	done
	# An ordinary user has to get in.
	chmod 755 "$root"
	chmod 1777 "$root/tmp"
	printf 'root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/tmp:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\nu:x:1000:\n' >"$root/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
	cp "$here/init" "$root/init"
	chmod 755 "$root/init"

	for name in $programs; do
		hm_vm_copy "$root" "$(command -v "$name")" "/usr/bin/$name"
	done
	cp "$(command -v busybox)" "$root/usr/bin/busybox"
	for name in $(busybox --list); do
		[ -e "$root/usr/bin/$name" ] || ln -s busybox "$root/usr/bin/$name"
	done
	hm_vm_copy "$root" $libraries/libibverbs.so.1
	hm_vm_copy "$root" $libraries/librdmacm.so.1
	hm_vm_copy "$root" $libraries/libibverbs/librxe-rdmav34.so
	cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
	cp unpacked/librxe_dmabuf.so "$root$libraries/"

	# shellcheck disable=SC2086
	python3 "$here/kernel.py" modules unpacked/kernel/lib/modules $modules >unpacked/modules
	while read -r file; do
		add_module "$file"
	done <unpacked/modules
	add_module unpacked/module/rxe_dmabuf.ko
	add_module unpacked/module/rxe_windows.ko
}

build()
{
	hm_vm_note "Builds the virtual machine's image in $cache."
	rm -rf unpacked
	mkdir unpacked
	download
	version=$(cat debs/version)
	for package in debs/*.deb; do
		dpkg-deb -x "$package" unpacked/kernel
	done
	build_modules
	build_preload
	build_root
	python3 "$here/kernel.py" unpack "unpacked/kernel/boot/vmlinuz-$version" unpacked/vmlinux
	hm_vm_pack "$root" >unpacked/base.cpio
	(cd "$root" && find . ! -type d) >unpacked/base.list
	rm -f recipe
	mv unpacked/vmlinux unpacked/base.cpio unpacked/base.list .
	recipe >recipe
	rm -rf unpacked
}

case $#:${1:-} in
0:) ;;
*)
	sed -n '/^# Builds/,/^set/s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
obstacle=$(hm_vm_obstacle)
[ -z "$obstacle" ] || unavailable "$obstacle"
mkdir -p "$hm_vm"
cd "$hm_vm"
cache=$(pwd -P)
# make and the kernel's build cannot quote.
case $cache in
*[!A-Za-z0-9_./+-]*) fail "the folder's name has characters that make does not take: $cache" ;;
esac
# Those who use the image hold the lock too, shared; so looking must not wait for it alone.
exec 9>>lock
flock -s 9
if ! up_to_date; then
	flock 9
	up_to_date || build
fi
