# SPDX-License-Identifier: BSD-2-Clause
"""The library as ctypes sees it: constants, structures and functions of the headers in rdma/.

Each structure that is declared here is compared with the header by tests/python/test_layout.py: a whole one
in size and every field; one of a table of operations, which is only read, or with a size that the caller says,
in the fields that it has.
"""

import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_size_t, c_ssize_t, c_uint32, c_uint64,
                    c_void_p)

VERSION = 2 << 16 | 6  # of the interface that the structures below are of

# name: value, as the headers have them
CONSTANTS = {
    "FI_MSG": 1 << 1, "FI_RMA": 1 << 2, "FI_HMEM": 1 << 47,
    "FI_READ": 1 << 8, "FI_WRITE": 1 << 9, "FI_RECV": 1 << 10, "FI_SEND": 1 << 11,
    "FI_TRANSMIT": 1 << 11, "FI_REMOTE_READ": 1 << 12, "FI_REMOTE_WRITE": 1 << 13,
    "FI_MR_LOCAL": 1 << 2, "FI_MR_VIRT_ADDR": 1 << 4, "FI_MR_ALLOCATED": 1 << 5,
    "FI_MR_PROV_KEY": 1 << 6, "FI_MR_HMEM": 1 << 10,
    "FI_MR_DMABUF": 1 << 40, "FI_SYNC_ERR": 1 << 58, "FI_ENABLE": 6,
    "FI_EP_UNSPEC": 0, "FI_EP_RDM": 3, "FI_WAIT_UNSPEC": 1, "FI_CQ_FORMAT_DATA": 3,
    "FI_ADDR_UNSPEC": (1 << 64) - 1,
    "FI_HMEM_SYSTEM": 0, "FI_HMEM_CUDA": 1, "FI_HMEM_ROCR": 2, "FI_HMEM_ZE": 3,
    "FI_HMEM_NEURON": 4, "FI_HMEM_SYNAPSEAI": 5,
}
globals().update(CONSTANTS)

# Codes of the interface alone; those below are errno's.
CODES = {name: 256 + i for i, name in enumerate((
    "FI_EOTHER", "FI_ETOOSMALL", "FI_EOPBADSTATE", "FI_EAVAIL", "FI_EBADFLAGS", "FI_ENOEQ", "FI_EDOMAIN",
    "FI_ENOCQ", "FI_ECRC", "FI_ETRUNC", "FI_ENOKEY", "FI_ENOAV", "FI_EOVERRUN", "FI_ENORX", "FI_ENOMR",
    "FI_EFIREWALLADDR"))}

LAYOUTS = []  # (name in C, class, whole)


def _declare(c_name, fields, whole=True):
    cls = type(c_name.split()[-1], (Structure,), {"_fields_": fields})
    LAYOUTS.append((c_name, cls, whole))
    return cls


def _table(c_name, *fields):
    """A table of operations: its size, then what of it is used or lies before that."""
    return _declare(c_name, [("size", c_size_t), *fields], whole=False)


def _slots(names):
    return [(name, c_void_p) for name in names.split()]


def _call(*arguments, result=c_int):
    return CFUNCTYPE(result, *arguments)


iovec = _declare("struct iovec", [("iov_base", c_void_p), ("iov_len", c_size_t)])

# ---- what fi_getinfo tells ----

fi_ep_attr = _declare("struct fi_ep_attr", [("type", c_int)], whole=False)
fi_domain_attr = _declare("struct fi_domain_attr", [
    ("domain", c_void_p), ("name", c_void_p), ("threading", c_int), ("control_progress", c_int),
    ("data_progress", c_int), ("resource_mgmt", c_int), ("av_type", c_int), ("mr_mode", c_int)], whole=False)
fi_fabric_attr = _declare("struct fi_fabric_attr", [
    ("fabric", c_void_p), ("name", c_void_p), ("prov_name", c_void_p), ("prov_version", c_uint32),
    ("api_version", c_uint32)])
fi_info = _declare("struct fi_info", [
    ("next", c_void_p), ("caps", c_uint64), ("mode", c_uint64), ("addr_format", c_uint32),
    ("src_addrlen", c_size_t), ("dest_addrlen", c_size_t), ("src_addr", c_void_p), ("dest_addr", c_void_p),
    ("handle", c_void_p), ("tx_attr", c_void_p), ("rx_attr", c_void_p), ("ep_attr", POINTER(fi_ep_attr)),
    ("domain_attr", POINTER(fi_domain_attr)), ("fabric_attr", POINTER(fi_fabric_attr)), ("nic", c_void_p)])

# ---- what calls are given ----

fi_av_attr = _declare("struct fi_av_attr", [
    ("type", c_int), ("rx_ctx_bits", c_int), ("count", c_size_t), ("ep_per_node", c_size_t), ("name", c_char_p),
    ("map_addr", c_void_p), ("flags", c_uint64)])
fi_cq_attr = _declare("struct fi_cq_attr", [
    ("size", c_size_t), ("flags", c_uint64), ("format", c_int), ("wait_obj", c_int), ("signaling_vector", c_int),
    ("wait_cond", c_int), ("wait_set", c_void_p), ("xpu_ctx", c_void_p)])
fi_mr_dmabuf = _declare("struct fi_mr_dmabuf", [
    ("fd", c_int), ("offset", c_uint64), ("len", c_size_t), ("base_addr", c_void_p)])
fi_mr_attr = _declare("struct fi_mr_attr", [
    ("mr_iov", c_void_p), ("iov_count", c_size_t), ("access", c_uint64), ("offset", c_uint64),
    ("requested_key", c_uint64), ("context", c_void_p), ("auth_key_size", c_size_t), ("auth_key", c_void_p),
    ("iface", c_int), ("device", c_uint64), ("hmem_data", c_void_p), ("page_size", c_size_t),
    ("base_mr", c_void_p), ("sub_mr_cnt", c_size_t)])
fi_cq_data_entry = _declare("struct fi_cq_data_entry", [
    ("op_context", c_void_p), ("flags", c_uint64), ("len", c_size_t), ("buf", c_void_p), ("data", c_uint64)])
fi_cq_err_entry = _declare("struct fi_cq_err_entry", [
    ("op_context", c_void_p), ("flags", c_uint64), ("len", c_size_t), ("buf", c_void_p), ("data", c_uint64),
    ("tag", c_uint64), ("olen", c_size_t), ("err", c_int), ("prov_errno", c_int), ("err_data", c_void_p),
    ("err_data_size", c_size_t), ("src_addr", c_uint64)])

# ---- objects, and the calls that they bring ----

fi_ops = _table(
    "struct fi_ops", ("close", _call(c_void_p)), ("bind", _call(c_void_p, c_void_p, c_uint64)),
    ("control", _call(c_void_p, c_int, c_void_p)),
    ("ops_open", _call(c_void_p, c_char_p, c_uint64, POINTER(c_void_p), c_void_p)))
fid = _declare("struct fid", [("fclass", c_size_t), ("context", c_void_p), ("ops", POINTER(fi_ops))])


def _object(c_name, *fields):
    return _declare(c_name, [("fid", fid), *fields])


_open = _call(c_void_p, c_void_p, POINTER(c_void_p), c_void_p)  # (parent, attributes, object, context)

fi_ops_fabric = _table("struct fi_ops_fabric", ("domain", _open))
fid_fabric = _object("struct fid_fabric", ("ops", POINTER(fi_ops_fabric)), ("api_version", c_uint32))

fi_ops_domain = _table("struct fi_ops_domain", ("av_open", _open), ("cq_open", _open), ("endpoint", _open))
fi_ops_mr = _table("struct fi_ops_mr", *_slots("reg regv"),
                   ("regattr", _call(c_void_p, c_void_p, c_uint64, POINTER(c_void_p))))
fid_domain = _object("struct fid_domain", ("ops", POINTER(fi_ops_domain)), ("mr", POINTER(fi_ops_mr)))

fid_mr = _object("struct fid_mr", ("mem_desc", c_void_p), ("key", c_uint64))

fi_ops_av = _table("struct fi_ops_av", (
    "insert", _call(c_void_p, c_void_p, c_size_t, POINTER(c_uint64), c_uint64, c_void_p)))
fid_av = _object("struct fid_av", ("ops", POINTER(fi_ops_av)))

fi_ops_cq = _table(
    "struct fi_ops_cq", *_slots("read readfrom"),
    ("readerr", _call(c_void_p, c_void_p, c_uint64, result=c_ssize_t)),
    ("sread", _call(c_void_p, c_void_p, c_size_t, c_void_p, c_int, result=c_ssize_t)),
    *_slots("sreadfrom signal"),
    ("strerror", _call(c_void_p, c_int, c_void_p, c_void_p, c_size_t, result=c_char_p)))
fid_cq = _object("struct fid_cq", ("ops", POINTER(fi_ops_cq)))

fi_ops_cm = _table("struct fi_ops_cm", *_slots("setname"),
                   ("getname", _call(c_void_p, c_void_p, POINTER(c_size_t))))
_local = (c_void_p, c_void_p, c_size_t, c_void_p, c_uint64)  # endpoint, buffer, size, descriptor, peer
fi_ops_msg = _table(
    "struct fi_ops_msg", ("recv", _call(*_local, c_void_p, result=c_ssize_t)), *_slots("recvv recvmsg"),
    ("send", _call(*_local, c_void_p, result=c_ssize_t)))
fi_ops_rma = _table(
    "struct fi_ops_rma", ("read", _call(*_local, c_uint64, c_uint64, c_void_p, result=c_ssize_t)),
    *_slots("readv readmsg"), ("write", _call(*_local, c_uint64, c_uint64, c_void_p, result=c_ssize_t)))
fid_ep = _object("struct fid_ep", ("ops", c_void_p), ("cm", POINTER(fi_ops_cm)), ("msg", POINTER(fi_ops_msg)),
                 ("rma", POINTER(fi_ops_rma)), *_slots("tagged atomic collective"))

# ---- what hmreg adds: the caller's size says how much of a structure is filled, so that these may grow ----

hmreg_domain_stats = _declare("struct hmreg_domain_stats", [
    ("size", c_size_t), ("regions", c_uint64), ("registered_bytes", c_uint64), ("mapped_keys", c_uint64),
    ("endpoints", c_uint64)], whole=False)
hmreg_domain_ops = _table("struct hmreg_domain_ops", ("stats", _call(c_void_p, POINTER(hmreg_domain_stats))))
hmreg_hmem_memory = _declare("struct hmreg_hmem_memory", [
    ("size", c_size_t), ("iface", c_int), ("device", c_int), ("kind", c_char_p), ("host_access", c_int),
    ("base", c_uint64), ("len", c_uint64), ("segments", c_uint32), ("id", c_uint64), ("reason", c_char_p)],
    whole=False)
hmreg_hmem_ops = _table("struct hmreg_hmem_ops", *_slots("iface device"), (
    "query", _call(c_void_p, c_void_p, c_size_t, POINTER(hmreg_hmem_memory))))


# ---- the library itself ----

def _place():
    """Where libhmreg is: LD_LIBRARY_PATH goes first, then the tree that this module was installed with."""
    name = "libhmreg.so.1"
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    try:
        from ._installed import LIBRARY
    except ImportError:
        return name
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
    return path if os.path.exists(path) else name


_loaded = None


def library():
    """libhmreg, loaded when it is first needed.  OSError: it is nowhere."""
    global _loaded
    if _loaded is None:
        lib = ctypes.CDLL(_place())
        pointer = POINTER(fi_info)
        lib.fi_getinfo.argtypes = [c_uint32, c_char_p, c_char_p, c_uint64, pointer, POINTER(pointer)]
        lib.fi_freeinfo.argtypes = [pointer]
        lib.fi_freeinfo.restype = None
        lib.fi_dupinfo.argtypes = [pointer]
        lib.fi_dupinfo.restype = pointer
        lib.fi_fabric.argtypes = [c_void_p, POINTER(c_void_p), c_void_p]
        lib.fi_strerror.argtypes = [c_int]
        lib.fi_strerror.restype = c_char_p
        _loaded = lib
    return _loaded


def string(address):
    """The string at an address, None for NULL."""
    return ctypes.string_at(address).decode() if address else None
