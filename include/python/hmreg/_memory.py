# SPDX-License-Identifier: BSD-2-Clause
"""Other people's objects as memory: an address, a size, whose it is, and what to do when it is given back.

Nothing is copied, and nothing here reads or writes what an object holds.
"""

import ctypes
import errno
import operator
import re
from ctypes import (POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t,
                    c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object, pythonapi)

from . import _abi
from ._errors import Error


def refuse(reason, code=errno.EINVAL):
    raise Error(code, "register", reason)


def whole(name, number, most=(1 << 64) - 1, operation="register"):
    """An integer from 0 to most.  ctypes would cut off what does not fit into C's."""
    number = operator.index(number)
    if not 0 <= number <= most:
        raise Error(errno.EINVAL, operation, "%s: %#x is not from 0 to %#x" % (name, number, most))
    return number


class Memory:
    """A range that an object lends, until release()."""

    def __init__(self, address, size, readonly, *, iface=_abi.FI_HMEM_SYSTEM, device=None, stream=None,
                 protocol=None, release=None):
        self.address, self.size = whole("address", address or 0), whole("size", size)
        whole("end of the memory", self.address + self.size, 1 << 64)
        self.readonly = readonly
        self.iface, self.device, self.stream, self.protocol = iface, device, stream, protocol
        self._release = release

    def release(self):
        """Gives the memory back, the first time that it is called."""
        release, self._release = self._release, None
        if release is not None:
            release()


def dense(shape, strides, itemsize):
    """Are these elements one range without gaps, in whatever order of the axes, first byte first?"""
    if len(strides) != len(shape):
        refuse("strides %r for shape %r" % (tuple(strides), tuple(shape)))
    expected = itemsize
    if 0 in shape:
        return True
    for stride, count in sorted((s, n) for s, n in zip(strides, shape) if n != 1):
        if stride != expected:
            return False
        expected *= count
    return True


def product(shape):
    count = 1
    for n in shape:
        count *= whole("shape %r" % (tuple(shape),), n)
    return count


# ---- the buffer protocol ----

class Py_buffer(Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_PyBUF_FULL_RO = 0x11c
_get_buffer = PYFUNCTYPE(c_int, py_object, POINTER(Py_buffer), c_int)(("PyObject_GetBuffer", pythonapi))
_release_buffer = PYFUNCTYPE(None, POINTER(Py_buffer))(("PyBuffer_Release", pythonapi))
_is_contiguous = PYFUNCTYPE(c_int, POINTER(Py_buffer), ctypes.c_char)(("PyBuffer_IsContiguous", pythonapi))
_has_buffer = PYFUNCTYPE(c_int, py_object)(("PyObject_CheckBuffer", pythonapi))


def from_buffer(obj):
    """bytes, bytearray, array.array, mmap, memoryview, NumPy arrays, ..."""
    view = Py_buffer()
    _get_buffer(obj, view, _PyBUF_FULL_RO)  # raises what the object raises
    if view.suboffsets or not _is_contiguous(view, b"A"):
        _release_buffer(view)
        refuse("the buffer's elements are not contiguous, and a region is one range: take a part that is, or a copy")
    return Memory(view.buf, view.len, bool(view.readonly), protocol="buffer",
                  release=lambda: _release_buffer(view))


# ---- __cuda_array_interface__ ----

def from_cuda(obj):
    """Version 2 or 3 of the interface; which device it is, the driver tells (Domain.register)."""
    about = obj.__cuda_array_interface__
    try:
        shape, typestr, (address, readonly) = tuple(about["shape"]), about["typestr"], about["data"]
        kind, itemsize = re.fullmatch("[<>|=]([A-Za-z])([0-9]+)", typestr).groups()
        strides = about.get("strides")
        strides = strides if strides is None else tuple(strides)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Error(errno.EINVAL, "register",
                    "__cuda_array_interface__: shape, typestr, data or strides are missing or not as the protocol "
                    "has them") from error
    if kind == "t":
        refuse("__cuda_array_interface__: elements of bits (%r)" % typestr)
    itemsize = int(itemsize)
    if strides is not None and not dense(shape, strides, itemsize):
        refuse("__cuda_array_interface__: strides %r of shape %r are not contiguous, and a region is one range: "
               "take a part that is, or a copy" % (strides, shape))
    if about.get("mask") is not None:
        refuse("__cuda_array_interface__: masked elements")
    stream = about.get("stream")
    if stream == 0:
        refuse("__cuda_array_interface__: stream 0 is ambiguous, and not allowed")
    # the closure keeps the object
    return Memory(address, product(shape) * itemsize, bool(readonly), iface=_abi.FI_HMEM_CUDA, stream=stream,
                  protocol="cuda", release=lambda kept=obj: None)


# ---- DLPack ----

class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class DLManagedTensor(Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("dl_tensor", DLTensor)]


READ_ONLY, IS_COPIED = 1, 2  # flags of a versioned tensor
AXES_MOST = 64  # of a tensor: as many as of a buffer (PyBUF_MAX_NDIM), and as PyTorch has

# DLDeviceType: name, interface.  Host memory that a driver has pinned is host memory like any other.
DEVICES = {
    1: ("kDLCPU", _abi.FI_HMEM_SYSTEM), 2: ("kDLCUDA", _abi.FI_HMEM_CUDA),
    3: ("kDLCUDAHost", _abi.FI_HMEM_SYSTEM), 10: ("kDLROCM", _abi.FI_HMEM_ROCR),
    11: ("kDLROCMHost", _abi.FI_HMEM_SYSTEM), 13: ("kDLCUDAManaged", _abi.FI_HMEM_CUDA),
    14: ("kDLOneAPI", _abi.FI_HMEM_ZE),
}

# Capsules keep pointers to their names: these live as long as the module.
_OLD, _OLD_USED = c_char_p(b"dltensor"), c_char_p(b"used_dltensor")
_NEW, _NEW_USED = c_char_p(b"dltensor_versioned"), c_char_p(b"used_dltensor_versioned")
_capsule_is = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", pythonapi))
_capsule_pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_capsule_rename = PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", pythonapi))


class _Tensor:
    """A tensor that a capsule held: this side owns it from now on, and calls its deleter once."""

    def __init__(self, capsule):
        self.versioned = bool(_capsule_is(capsule, _NEW))
        if not self.versioned and not _capsule_is(capsule, _OLD):
            raise TypeError("__dlpack__ returned %r, which is no DLPack capsule, or a used one" % (capsule,))
        self.address = _capsule_pointer(capsule, _NEW if self.versioned else _OLD)
        _capsule_rename(capsule, _NEW_USED if self.versioned else _OLD_USED)
        kind = DLManagedTensorVersioned if self.versioned else DLManagedTensor
        self.managed = kind.from_address(self.address)

    def release(self):
        deleter = self.managed.deleter
        if deleter:
            PYFUNCTYPE(None, c_void_p)(deleter)(self.address)  # with the interpreter's lock held


def _capsule_of(obj):
    """Newer producers tell whether memory may be written, and refuse where they would have to copy."""
    try:
        return obj.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:
        return obj.__dlpack__()


def _tensor_memory(tensor, release):
    managed = tensor.managed
    if tensor.versioned and managed.major != 1:
        refuse("DLPack version %d, and this module knows 1" % managed.major)
    flags = managed.flags if tensor.versioned else 0
    if flags & IS_COPIED:
        refuse("__dlpack__ gave a copy, which is nobody's to write to")
    t = managed.dl_tensor
    name, iface = DEVICES.get(t.device.device_type, (None, None))
    if name is None:
        refuse("DLPack device type %d has no interface here" % t.device.device_type, errno.EOPNOTSUPP)
    if not 0 <= t.ndim <= AXES_MOST or (t.ndim and not t.shape):
        refuse("DLPack tensor of %d axes%s" % (t.ndim, "" if t.shape else ", without a shape"))
    shape = t.shape[:t.ndim] if t.ndim else []
    if t.strides and not dense(shape, t.strides[:t.ndim] if t.ndim else [], 1):
        refuse("DLPack strides %r of shape %r are not contiguous, and a region is one range: take a part that is, "
               "or a copy" % (t.strides[:t.ndim], shape))
    size = (product(shape) * t.dtype.bits * t.dtype.lanes + 7) // 8
    return Memory((t.data or 0) + t.byte_offset, size, bool(flags & READ_ONLY), iface=iface,
                  device=t.device.device_id if iface else None, protocol="dlpack", release=release)


def from_dlpack(obj):
    """PyTorch, CuPy, JAX and others.  The tensor is given back when the region is closed."""
    kind = obj.__dlpack_device__()[0]
    if int(kind) not in DEVICES:  # before anything is made
        refuse("DLPack device type %d has no interface here" % kind, errno.EOPNOTSUPP)
    tensor = _Tensor(_capsule_of(obj))
    try:
        return _tensor_memory(tensor, tensor.release)
    except BaseException:
        tensor.release()
        raise


# ---- whichever ----

PROTOCOLS = {"buffer": from_buffer, "dlpack": from_dlpack, "cuda": from_cuda}


def memory_of(obj, protocol=None):
    """The memory of an object, by the protocol named or the first that it has.

    The buffer protocol comes first, since it asks nothing of a driver; DLPack before
    __cuda_array_interface__, since it names the device.
    """
    if protocol is not None:
        if protocol not in PROTOCOLS:
            raise ValueError("protocol %r is none of %s" % (protocol, ", ".join(PROTOCOLS)))
        return PROTOCOLS[protocol](obj)
    if _has_buffer(obj):
        return from_buffer(obj)
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        return from_dlpack(obj)
    if hasattr(obj, "__cuda_array_interface__"):
        return from_cuda(obj)
    raise TypeError("%s offers neither the buffer protocol nor __dlpack__ nor __cuda_array_interface__"
                    % type(obj).__name__)
