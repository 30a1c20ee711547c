# SPDX-License-Identifier: BSD-2-Clause
"""What the module knows of the C headers is what they say: a C program prints it, and is compared."""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import scene
from hmreg import _abi, _errors, _memory

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
INCLUDE = os.path.join(ROOT, "include")
CC = shlex.split(os.environ.get("CC") or "cc")

HEAD = """
#include <stdio.h>
#include <stddef.h>
#include <sys/uio.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_ext_hmreg.h>
#define FIELD(type, field) printf("%s.%s %zu %zu\\n", #type, #field, offsetof(type, field), \\
                                  sizeof(((type *)0)->field))
#define SIZE(type) printf("%s %zu\\n", #type, sizeof(type))
#define VALUE(name) printf("%s %llu\\n", #name, (unsigned long long)(name))
"""

# As the DLPack specification has them, versions 0.8 and 1.0.
DLPACK = """
#include <stdint.h>
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLROCM = 10, kDLROCMHost = 11, kDLCUDAManaged = 13,
               kDLOneAPI = 14 } DLDeviceType;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct { void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape; int64_t *strides;
                 uint64_t byte_offset; } DLTensor;
typedef struct DLManagedTensor { DLTensor dl_tensor; void *manager_ctx;
                                 void (*deleter)(struct DLManagedTensor *self); } DLManagedTensor;
typedef struct DLManagedTensorVersioned { struct { uint32_t major, minor; } version; void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); uint64_t flags; DLTensor dl_tensor;
} DLManagedTensorVersioned;
"""


@unittest.skipUnless(shutil.which(CC[0]), "no C compiler")
class Layout(unittest.TestCase):
    def say(self, head, lines):
        """What a program of these lines prints: the words of each line."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "say.c"), os.path.join(folder, "say")
            with open(source, "w", encoding="ascii") as file:
                file.write(head + "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
            subprocess.run([*CC, "-std=gnu11", "-I" + INCLUDE, "-o", program, source], check=True)
            said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said.count("\n"), len(lines))
        return [line.rsplit(" ", 1) for line in said.splitlines()]

    def compare(self, head, layouts):
        lines, expected = [], []
        for name, cls, whole in layouts:
            if whole:
                lines.append("SIZE(%s);" % name)
                expected.append("%s %d" % (name, ctypes.sizeof(cls)))
            for field, _ in cls._fields_:
                lines.append("FIELD(%s, %s);" % (name, field))
                about = getattr(cls, field)
                expected.append("%s.%s %d %d" % (name, field, about.offset, about.size))
        said = [" ".join(words) for words in self.say(head, lines)]
        self.assertEqual(said, expected)

    def test_python_structures(self):
        self.assertGreater(len(_abi.LAYOUTS), 25)
        self.compare(HEAD, _abi.LAYOUTS)

    def test_python_constants(self):
        said = self.say(HEAD, ["VALUE(%s);" % name for name in _abi.CONSTANTS])
        self.assertEqual({name: int(value) for name, value in said}, _abi.CONSTANTS)
        self.assertEqual(self.say(HEAD, ["VALUE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));"])[0][1],
                         str(_abi.VERSION))

    def test_python_names_of_codes(self):
        """Every code of fi_errno.h, by the name that it has there."""
        with open(os.path.join(INCLUDE, "rdma", "fi_errno.h"), encoding="ascii") as file:
            names = re.findall(r"^(?:#define |\t)(FI_E[A-Z0-9]+)\b", file.read(), re.M)
        names = [name for name in names if name not in ("FI_ERRNO_OFFSET", "FI_ERRNO_MAX", "FI_EWOULDBLOCK")]
        self.assertGreater(len(names), 50)
        for name, value in self.say(HEAD, ["VALUE(%s);" % name for name in names]):
            self.assertEqual(_errors.name_of(int(value)), name)

    def test_python_dlpack_structures(self):
        self.compare(HEAD + DLPACK, [
            ("DLDevice", _memory.DLDevice, True), ("DLDataType", _memory.DLDataType, True),
            ("DLTensor", _memory.DLTensor, True), ("DLManagedTensor", _memory.DLManagedTensor, True)])
        said = self.say(HEAD + DLPACK, [
            "SIZE(DLManagedTensorVersioned);",
            "VALUE(offsetof(DLManagedTensorVersioned, version.major));",
            "VALUE(offsetof(DLManagedTensorVersioned, version.minor));",
            *("VALUE(offsetof(DLManagedTensorVersioned, %s));" % name
              for name in ("manager_ctx", "deleter", "flags", "dl_tensor"))])
        cls = _memory.DLManagedTensorVersioned
        self.assertEqual([int(words[1]) for words in said],
                         [ctypes.sizeof(cls), *(getattr(cls, name).offset for name, _ in cls._fields_)])
        said = self.say(HEAD + DLPACK, ["VALUE(%s);" % name for name, _ in _memory.DEVICES.values()])
        self.assertEqual([int(words[1]) for words in said], list(_memory.DEVICES))

    def test_python_py_buffer(self):
        """Against the interpreter's own headers, where they are."""
        found = subprocess.run([sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                               check=True, capture_output=True, text=True).stdout.strip()
        if not os.path.exists(os.path.join(found, "Python.h")):
            self.skipTest("no Python.h in " + found)
        self.compare("#include <%s/Python.h>\n" % found + HEAD, [("Py_buffer", _memory.Py_buffer, True)])

    def test_python_a_wrong_field_is_noticed(self):
        cls = type("wrong", (ctypes.Structure,), {"_fields_": [("iov_len", ctypes.c_size_t)]})
        with self.assertRaises(AssertionError):
            self.compare(HEAD, [("struct iovec", cls, False)])


if __name__ == "__main__":
    scene.main()
