#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Takes Debian's kernel package apart for the virtual machine's image.

kernel.py unpack VMLINUZ VMLINUX    the ELF kernel that is packed inside a bzImage: QEMU starts it at once
kernel.py modules TREE NAME...      prints the files of these modules and of what they need, in the order
                                    in which they can be loaded
"""
import lzma
import os
import struct
import subprocess
import sys


def unpack(source, target):
    """Offsets are those of the x86 boot protocol, "The real-mode kernel header"."""
    with open(source, "rb") as file:
        image = file.read()
    setup_sectors = image[0x1F1] or 4
    payload_offset, payload_length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + payload_offset
    payload = image[start : start + payload_length]
    if payload.startswith(b"\xfd7zXZ\0"):
        # What follows the stream is its unpacked length.
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        kernel = subprocess.run(
            ["zstd", "-dcq"], input=payload[:-4], stdout=subprocess.PIPE, check=True
        ).stdout
    else:
        sys.exit(f"error: {source}: packed in a way that is not known here")
    if not kernel.startswith(b"\x7fELF"):
        sys.exit(f"error: {source}: no ELF kernel inside")
    with open(target, "wb") as file:
        file.write(kernel)


def module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def needed_by(path):
    """The modules that this one names in its .modinfo section."""
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as file:
        text = file.read()
    for entry in text.split(b"\0"):
        if entry.startswith(b"depends="):
            names = entry[len(b"depends=") :].decode()
            return [name.replace("-", "_") for name in names.split(",") if name]
    sys.exit(f"error: {path}: does not say which modules it needs")


def modules(tree, names):
    files = {}
    for folder, _, entries in os.walk(tree):
        for entry in entries:
            if ".ko" in entry:
                files[module_name(entry)] = os.path.join(folder, entry)
    order = []

    def visit(name):
        if name not in files:
            sys.exit(f"error: the kernel package has no module {name}")
        for other in needed_by(files[name]):
            visit(other)
        if files[name] not in order:
            order.append(files[name])

    for name in names:
        visit(name)
    print("\n".join(order))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3])
    elif len(sys.argv) > 3 and sys.argv[1] == "modules":
        modules(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)
