# SPDX-License-Identifier: BSD-2-Clause
# What build.sh and run.sh share.  Read with `.' after `cd' to the root of the tree.

# The image and what it is made of; kept from run to run.
hm_vm=${HMREG_VM_DIR:-build/vm}

hm_vm_note()
{
	echo "$*" >&2
}

# Why there can be no virtual machine here; nothing when there can.
hm_vm_obstacle()
{
	if [ "$(uname -m)" != x86_64 ]; then
		echo "it is for x86-64, and this is $(uname -m)"
	elif ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg >/dev/null 2>&1; then
		echo "its parts are Debian packages, and there is no apt-get here"
	elif ! grep -qx 'VERSION_CODENAME=bookworm' /etc/os-release 2>/dev/null; then
		echo "it is made of packages of Debian 12 (bookworm), and this is another system"
	fi
}

# hm_vm_path PATH: the same with the links /lib, /lib64, /bin and /sbin of the root resolved; the
# machine has them too, and a folder of that name in an archive would replace the link.
hm_vm_path()
{
	case $1 in
	/lib/* | /lib64/* | /bin/* | /sbin/*) printf '/usr%s\n' "$1" ;;
	*) printf '%s\n' "$1" ;;
	esac
}

# hm_vm_copy ROOT FILE [PLACE]: a file into the tree ROOT, at PLACE (default: where it is here), and the
# shared libraries that it names.
hm_vm_copy()
{
	hm_vm_put "$1" "$2" "${3:-$2}"
	# ldd fails on what is no dynamic program, which is well.
	ldd "$2" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' >"$1.libraries"
	while read -r library; do
		hm_vm_put "$1" "$library" "$library"
	done <"$1.libraries"
	if ldd "$2" 2>/dev/null | grep -q 'not found'; then
		echo "error: $2 needs libraries that are not here" >&2
		return 1
	fi
	rm -f "$1.libraries"
}

# hm_vm_put ROOT FILE PLACE: without its libraries, and not what the image holds already.
hm_vm_put()
{
	place=$(hm_vm_path "$3")
	[ ! -e "$1$place" ] || return 0
	if [ "$2" = "$3" ] && [ -e "$1.base" ] && grep -qxF -e ".$place" "$1.base"; then
		return 0
	fi
	mkdir -p "$1${place%/*}"
	cp -L "$2" "$1$place"
}

# hm_vm_pack ROOT: the tree as an archive that the kernel unpacks; everything is root's.
hm_vm_pack()
{
	(cd "$1" && find . | LC_ALL=C sort | cpio -o -H newc -R +0:+0 --quiet)
}
