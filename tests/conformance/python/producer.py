# SPDX-License-Identifier: BSD-2-Clause
"""Device memory as array libraries hand it out: by __cuda_array_interface__, and as DLPack capsules that are made
here by ctypes, with a deleter that counts."""

import ctypes
from ctypes import CFUNCTYPE, PYFUNCTYPE, byref, c_char_p, c_int, c_size_t, c_void_p, py_object

from hmreg import _abi, _memory


class hmem_ops(ctypes.Structure):
    """HMREG_HMEM_OPS as far as copy."""

    _fields_ = [("size", c_size_t), ("iface", c_void_p), ("device", c_void_p), ("query", c_void_p),
                ("path", c_void_p),
                ("alloc", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_size_t, c_void_p)),
                ("free", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)),
                ("copy", CFUNCTYPE(c_int, c_void_p, c_void_p, c_char_p, c_size_t))]


class DeviceArray:
    """An allocation of an accelerator; emulated ones fault when the processor touches them."""

    def __init__(self, domain, iface, size, device=0, kind=0):
        self.fabric, self.size, self.of = domain._fabric, size, (iface, device, kind)
        ops = c_void_p()
        about = _abi.fid.from_address(self.fabric).ops.contents
        assert about.ops_open(self.fabric, b"hmreg_hmem_ops", 0, byref(ops), None) == 0
        self.ops = hmem_ops.from_address(ops.value)
        address = c_void_p()
        ret = self.ops.alloc(self.fabric, *self.of, size, byref(address))
        if ret:
            raise OSError(-ret, "no memory of this interface here")
        self.address = address.value

    def free(self):
        assert self.ops.free(self.fabric, *self.of, self.address) == 0

    def fill(self, data):
        assert self.ops.copy(self.fabric, self.address, bytes(data), len(data)) == 0

    def bytes(self):
        out = ctypes.create_string_buffer(self.size)
        copy = ctypes.cast(self.ops.copy, CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t))
        assert copy(self.fabric, out, self.address, self.size) == 0
        return out.raw


class CudaArray:
    """What offers __cuda_array_interface__."""

    def __init__(self, array, **other):
        self.array = array
        self.__cuda_array_interface__ = {"shape": (array.size,), "typestr": "|u1", "version": 3,
                                         "data": (array.address, False), **other}


_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
# What destructors get is no Python object any more, but a pointer.
_is_valid = PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_NAMES = (c_char_p(b"dltensor"), c_char_p(b"dltensor_versioned"))
_alive = {}  # tensors that nobody has deleted
twice = []  # addresses of those that were, and once more


@PYFUNCTYPE(None, c_void_p)
def _delete(address):
    tensor, owner = _alive.pop(address, (None, None))
    if owner is None:
        twice.append(address)
    else:
        owner.deleted += 1


@PYFUNCTYPE(None, c_void_p)
def _destroy(capsule):
    """A capsule that nobody has taken the tensor from."""
    for name in _NAMES:
        if _is_valid(capsule, name):
            _delete(_pointer(capsule, name))


class Tensor:
    """What offers __dlpack__: versioned if the consumer knows about that, and it does itself."""

    def __init__(self, address, shape, *, kind=1, device=0, strides=None, bits=8, lanes=1, offset=0, flags=None,
                 major=1, keep=None):
        self.address, self.shape, self.kind, self.device, self.strides = address, shape, kind, device, strides
        self.bits, self.lanes, self.offset, self.flags, self.major, self.keep = bits, lanes, offset, flags, major, keep
        self.made = self.deleted = 0
        self.asked = None
        self.said = {}  # fields of the tensor that are not as its shape has them

    def __dlpack_device__(self):
        return self.kind, self.device

    def _capsule(self, versioned):
        tensor = _memory.DLManagedTensorVersioned() if versioned else _memory.DLManagedTensor()
        if versioned:
            tensor.major, tensor.flags = self.major, self.flags or 0
        numbers = ctypes.c_int64 * max(len(self.shape), 1)
        shape, strides = numbers(*self.shape), numbers(*self.strides) if self.strides else None
        t = tensor.dl_tensor
        t.data, t.ndim, t.byte_offset, t.shape = self.address, len(self.shape), self.offset, shape
        if strides is not None:
            t.strides = strides
        t.device.device_type, t.device.device_id = self.kind, self.device
        t.dtype.code, t.dtype.bits, t.dtype.lanes = 1, self.bits, self.lanes
        for name, value in self.said.items():
            setattr(t, name, value)
        tensor.deleter = ctypes.cast(_delete, c_void_p)
        address = ctypes.addressof(tensor)
        _alive[address] = (tensor, self)
        self.made += 1
        return _new_capsule(address, _NAMES[versioned], ctypes.cast(_destroy, c_void_p))


class OldTensor(Tensor):
    """As before version 1: it knows no arguments but stream."""

    def __dlpack__(self, stream=None):
        return self._capsule(False)


class NewTensor(Tensor):
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked = max_version, copy
        return self._capsule(max_version is not None and max_version[0] >= 1)
