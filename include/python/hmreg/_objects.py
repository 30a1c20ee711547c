# SPDX-License-Identifier: BSD-2-Clause
"""Domains, regions and endpoints."""

import contextlib
import enum
import errno
import itertools
import os
import threading
import time
import warnings
import weakref
from ctypes import POINTER, byref, c_char, c_int, c_size_t, c_uint64, c_void_p, cast, create_string_buffer, sizeof
from typing import NamedTuple

from . import _abi
from ._errors import Error, OperationError, check
from ._memory import Memory, memory_of, refuse, whole


class Access(enum.IntFlag):
    """What a region is registered for."""

    SEND = _abi.FI_SEND
    RECV = _abi.FI_RECV
    READ = _abi.FI_READ  # takes what this side reads from a peer
    WRITE = _abi.FI_WRITE  # gives what this side writes to a peer
    REMOTE_READ = _abi.FI_REMOTE_READ
    REMOTE_WRITE = _abi.FI_REMOTE_WRITE


READING = Access.SEND | Access.WRITE | Access.REMOTE_READ  # of the memory
WRITING = Access.RECV | Access.READ | Access.REMOTE_WRITE


class Iface(enum.IntEnum):
    """Whose memory it is."""

    SYSTEM = _abi.FI_HMEM_SYSTEM
    CUDA = _abi.FI_HMEM_CUDA
    ROCR = _abi.FI_HMEM_ROCR
    ZE = _abi.FI_HMEM_ZE
    NEURON = _abi.FI_HMEM_NEURON
    SYNAPSEAI = _abi.FI_HMEM_SYNAPSEAI


class Remote(NamedTuple):
    """Memory of a peer: three integers, to be sent to it in any way."""

    address: int
    key: int
    size: int

    def at(self, offset, size=None):
        """A part of it."""
        size = self.size - offset if size is None else size
        if not 0 <= offset <= self.size or not 0 <= size <= self.size - offset:
            raise IndexError("%d bytes at %d of %d" % (size, offset, self.size))
        return Remote(self.address + offset, self.key, size)


class Completion(NamedTuple):
    """The end of an operation: its number, what it was, and of a receive the bytes that came."""

    op: int
    flags: int
    size: int
    data: int


# ---- who owns what ----

class _Owned:
    """C objects that go together, and what has to outlive them: parents as long as these are open, memory."""

    def __init__(self, *parents):
        self._open = []
        self._parents = parents
        self._releases = []
        self._process = os.getpid()
        self.state = threading.Condition()  # of users, and of what is open
        self.users = 0  # calls that are under way
        self.children = {}  # id: a weak reference to an object that was opened in these

    def add(self, fid, name):
        self._open.append((fid, name))
        return fid

    def on_release(self, release):
        self._releases.append(release)

    def close(self):
        """Last opened first, up to the first that is in use: it and the others stay."""
        while self._open:
            fid, name = self._open[-1]
            ops = _abi.fid.from_address(fid).ops.contents
            check(ops.close(fid), "fi_close of the " + name)
            self._open.pop()
        while self._releases:
            self._releases.pop()()

    def finish(self):
        """The same where nobody can be told.  A child of fork() leaves alone what is its parent's.

        At the end of the interpreter daemon threads still run: no call begins any more, those under way end
        first, and what they have opened meanwhile is closed before this.
        """
        if os.getpid() != self._process:
            return
        try:
            with self.state:
                if not self.state.wait_for(lambda: not self.users, _LAST_WAIT):
                    raise Error(errno.EBUSY, "a call of another thread")
            for child in reversed(list(self.children.values())):  # unlocked: their calls may need these
                opened = child()
                if opened is not None:
                    opened._finalizer()
            with self.state:
                self.close()
        except Error as error:
            _lost.append(self)
            warnings.warn("hmreg: left open: %s" % error, ResourceWarning)


_LAST_WAIT = 10  # seconds; calls are short, and a wait looks at _SLICE whether it has to end
_lost = []  # what could not be closed, with its memory, which a NIC may still reach


class _Object:
    """Closed by close(), at the end of a with, by the garbage collector, or when the interpreter ends.

    The finalizer refers to the parents, so that they go after it in each of these ways; at the end of the
    interpreter finalizers run in the reverse order of creation.
    """

    def __init__(self, owned):
        self._owned = owned
        self._closing = False
        self._finalizer = weakref.finalize(self, owned.finish)

    @property
    def closed(self):
        return not self._finalizer.alive

    def close(self):
        """Waits for calls that other threads have under way; their waits end with ValueError.

        hmreg.Error FI_EBUSY: others use it, and it is as good as before.  What is closed stays closed.
        """
        owned = self._owned
        with owned.state:
            if self.closed:
                return
            self._closing = True
            try:
                owned.state.wait_for(lambda: not owned.users)
                if not self.closed:
                    owned.close()
                    self._finalizer.detach()
            finally:
                self._closing = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _live(self):
        if self._closing or self.closed:
            raise ValueError("the %s is closed" % type(self).__name__.lower())

    def _adopt(self, child):
        children, number = self._owned.children, id(child)
        children[number] = weakref.ref(child, lambda _: children.pop(number, None))
        return child

    @contextlib.contextmanager
    def _use(self):
        """Around calls into the library: nobody closes the object meanwhile."""
        owned = self._owned
        with owned.state:
            self._live()
            owned.users += 1
        try:
            yield
        finally:
            with owned.state:
                owned.users -= 1
                owned.state.notify_all()


def _open_by(call, parent, attributes, name):
    out = c_void_p()
    check(call(parent, attributes, byref(out), None), name)
    return out.value


# ---- regions ----

class _Addressed:
    """What a region and a range of one have in common."""

    def __getitem__(self, part):
        """A range of the bytes, with the same key: nothing is registered for it."""
        if not isinstance(part, slice):
            raise TypeError("a range of bytes: region[begin:end]")
        begin, end, step = part.indices(self.size)
        if step != 1:
            raise ValueError("a range of a region is one piece")
        return Range(self.region, self._offset + begin, max(end - begin, 0))

    def __len__(self):
        return self.size

    @property
    def remote(self):
        """What a peer needs for it."""
        domain = self.region.domain
        by_address = domain.mr_mode & _abi.FI_MR_VIRT_ADDR
        return Remote(self.address if by_address else self._offset, self.key, self.size)

    def register(self, access=None):
        """A region over this part alone, with a key and rights of its own; the memory is pinned once."""
        return self.region._register_part(self, access)


class Range(_Addressed):
    """Some bytes of a region."""

    def __init__(self, region, offset, size):
        self.region, self._offset, self.size = region, offset, size
        self.address = region.address + offset

    @property
    def key(self):
        return self.region.key

    @property
    def desc(self):
        return self.region.desc

    def __repr__(self):
        return "<hmreg.Range of %d bytes at %d of %r>" % (self.size, self._offset, self.region)


class Region(_Object, _Addressed):
    """Registered memory.  The object that it was registered from lives as long as this is open.

    access: the rights; readonly: what the object said; iface and device: whose memory it is; stream: what
    __cuda_array_interface__ said that readers have to wait for, None if nothing; protocol: "buffer", "dlpack",
    "cuda", or None.
    """

    _offset = 0

    def __init__(self, domain, memory, access, mr, owned):
        self.domain, self.address, self.size, self.access = domain, memory.address, memory.size, access
        self.readonly, self.stream, self.protocol = memory.readonly, memory.stream, memory.protocol
        self.iface, self.device = Iface(memory.iface), memory.device
        self._mr, fid = mr, _abi.fid_mr.from_address(mr)
        self._key, self._desc = fid.key, fid.mem_desc or 0
        super().__init__(owned)

    @property
    def region(self):
        return self

    @property
    def key(self):
        """What peers name it by."""
        self._live()
        return self._key

    @property
    def desc(self):
        """What local operations name it by: the C pointer as a number."""
        self._live()
        return self._desc

    def _register_part(self, part, access):
        memory = Memory(part.address, part.size, self.readonly, iface=self.iface, device=self.device,
                        stream=self.stream, protocol=self.protocol)
        with self._use():
            return self.domain._register(memory, access, base=self)

    def __repr__(self):
        state = "closed" if self.closed else "key %#x" % self.key
        return "<hmreg.Region of %d bytes at %#x, %s, %s>" % (self.size, self.address, self.iface.name, state)


_INT_MOST = (1 << 31) - 1


def _rights(access, readonly):
    """What is asked for, or all that the memory allows."""
    if access is None:
        return READING if readonly else READING | WRITING
    access = Access(whole("access", access))
    if readonly and access & WRITING:
        refuse("the memory is read only, and cannot be registered for %s" % _names(access & WRITING),
               errno.EACCES)
    return access


def _names(access):
    return ", ".join(one.name for one in Access if one & access)


# ---- domains ----

class Port(NamedTuple):
    """What fi_getinfo finds; endpoints: False where a port is for registration alone."""

    name: str
    provider: str
    fabric: str
    endpoints: bool


_MR_MODE = _abi.FI_MR_LOCAL | _abi.FI_MR_VIRT_ADDR | _abi.FI_MR_ALLOCATED | _abi.FI_MR_PROV_KEY


def _find(domain, provider, caps, mr_mode, ep_type):
    """A list of fi_getinfo, the caller's to free."""
    for name in (domain, provider):
        if name and "\0" in name:
            raise ValueError("no name: %r" % name)
    lib = _abi.library()
    hints, found = lib.fi_dupinfo(None), POINTER(_abi.fi_info)()
    if not hints:
        raise Error(errno.ENOMEM, "fi_allocinfo")
    ask = hints.contents
    names = [create_string_buffer(name.encode()) if name else None for name in (domain, provider)]
    ask.caps = caps
    ask.ep_attr.contents.type = ep_type
    ask.domain_attr.contents.mr_mode = mr_mode
    # Lent for the call, and not the list's to free.
    ask.domain_attr.contents.name = cast(names[0], c_void_p)
    ask.fabric_attr.contents.prov_name = cast(names[1], c_void_p)
    try:
        check(lib.fi_getinfo(_abi.VERSION, None, None, 0, hints, byref(found)), "fi_getinfo")
    finally:
        ask.domain_attr.contents.name = ask.fabric_attr.contents.prov_name = None
        lib.fi_freeinfo(hints)
    return found


def _port(info):
    return Port(_abi.string(info.domain_attr.contents.name), _abi.string(info.fabric_attr.contents.prov_name),
                _abi.string(info.fabric_attr.contents.name), info.ep_attr.contents.type != _abi.FI_EP_UNSPEC)


def ports(hmem=False):
    """The NIC ports of this machine that this module can serve, best first."""
    try:
        found = _find(None, None, _abi.FI_HMEM if hmem else 0, _mode(hmem), _abi.FI_EP_UNSPEC)
    except Error as error:
        if error.code == errno.ENODATA:
            return []
        raise
    result, at = [], cast(found, c_void_p).value
    while at:
        info = _abi.fi_info.from_address(at)
        port = _port(info)
        if port not in result:
            result.append(port)
        at = info.next
    _abi.library().fi_freeinfo(found)
    return result


def _mode(hmem):
    return _MR_MODE | (_abi.FI_MR_HMEM if hmem else 0)


def open(domain=None, provider=None, *, hmem=False, endpoints=True):
    """Opens a NIC port.

    domain, provider: their names; None: the first that fits.  hmem: accelerator memory is to be registered, too.
    endpoints=False: a port that is for registration alone will do.  hmreg.Error FI_ENODATA: there is none.
    """
    caps = (_abi.FI_MSG | _abi.FI_RMA if endpoints else 0) | (_abi.FI_HMEM if hmem else 0)
    found = _find(domain, provider, caps, _mode(hmem), _abi.FI_EP_RDM if endpoints else _abi.FI_EP_UNSPEC)
    owned = _Owned()
    owned.on_release(lambda: _abi.library().fi_freeinfo(found))
    try:
        return Domain(found.contents, owned, hmem)
    except BaseException:
        owned.close()
        raise


class Domain(_Object):
    """A NIC port as one user sees it, opened by hmreg.open().

    Leaving a with closes what was opened in it, last first.  close() alone refuses while that is open.
    """

    def __init__(self, info, owned, hmem):
        self._info = info
        self.port, self.hmem = _port(info), hmem
        self.name, self.mr_mode = self.port.name, info.domain_attr.contents.mr_mode
        fabric = c_void_p()
        check(_abi.library().fi_fabric(cast(info.fabric_attr, c_void_p), byref(fabric), None), "fi_fabric")
        self._fabric = owned.add(fabric.value, "fabric")
        ops = _abi.fid_fabric.from_address(self._fabric).ops.contents
        self._domain = owned.add(_open_by(ops.domain, self._fabric, byref(info), "fi_domain"), "domain")
        self._ops = _abi.fid_domain.from_address(self._domain)
        self._next_key = itertools.count(1)  # where programs choose keys
        super().__init__(owned)

    def __exit__(self, *_):
        for child in reversed(list(self._owned.children.values())):
            opened = child()
            if opened is not None:
                opened.close()
        self.close()

    def register(self, obj, access=None, *, protocol=None, device=None):
        """The memory of an object as a Region, where it is: nothing is copied.

        obj offers the buffer protocol, __dlpack__ or __cuda_array_interface__, looked for in this order, or by
        protocol ("buffer", "dlpack", "cuda").  access: None for all that the memory allows.  device: of its
        interface, where the object does not say; the driver is asked else.  Work that a device has under way
        with the memory is the caller's to wait for (Region.stream).
        """
        self._live()
        memory = memory_of(obj, protocol)
        try:
            if device is not None:
                memory.device = device
            return self._register(memory, access)
        except BaseException:
            memory.release()
            raise

    def register_address(self, address, size, access=None, *, iface=Iface.SYSTEM, device=None, readonly=False,
                         keep=None):
        """The same for plain numbers; keep is an object to be kept alive for it."""
        memory = Memory(address, size, readonly, iface=iface, device=device,
                        release=lambda kept=keep: None)
        return self._register(memory, access)

    def register_dmabuf(self, fd, size, access=None, *, offset=0, base=0, readonly=False):
        """size bytes at offset of a dma-buf that this process sees at base; fd may be closed afterwards."""
        memory = Memory(whole("base", base) + whole("offset", offset), size, readonly)
        dmabuf = _abi.fi_mr_dmabuf(whole("fd", fd, _INT_MOST), offset, size, base or None)
        return self._register(memory, access, dmabuf=dmabuf)

    def _device_of(self, memory):
        """The device, asked of the driver where nobody has said it."""
        if memory.device is not None:
            return memory.device
        ops, about = c_void_p(), _abi.hmreg_hmem_memory(size=sizeof(_abi.hmreg_hmem_memory))
        fid_ops = _abi.fid.from_address(self._fabric).ops.contents
        check(fid_ops.ops_open(self._fabric, b"hmreg_hmem_ops", 0, byref(ops), None), "fi_open_ops")
        query = _abi.hmreg_hmem_ops.from_address(ops.value).query
        check(query(self._fabric, memory.address, memory.size, byref(about)), "query of the memory's owner")
        if about.iface != memory.iface:
            refuse("the memory is said to be %s, and its driver knows nothing of it" % Iface(memory.iface).name)
        return max(about.device, 0)  # memory that is the host's is reached from any

    def _register(self, memory, access, *, base=None, dmabuf=None):
        with self._use():
            return self._register_open(memory, access, base, dmabuf)

    def _register_open(self, memory, access, base, dmabuf):
        access = _rights(access, memory.readonly)
        attr, flags = _abi.fi_mr_attr(iov_count=1, access=access), 0
        if dmabuf is not None:
            source, flags = dmabuf, _abi.FI_MR_DMABUF
        else:
            source = _abi.iovec(memory.address, memory.size)
        if memory.iface != _abi.FI_HMEM_SYSTEM and base is None:
            if not self.hmem:
                refuse("%s memory needs a domain for it: hmreg.open(hmem=True)" % Iface(memory.iface).name,
                       errno.EOPNOTSUPP)
            memory.device = self._device_of(memory)
            attr.iface, attr.device = memory.iface, whole("device", memory.device, _INT_MOST)
        attr.mr_iov = cast(byref(source), c_void_p)
        attr.requested_key = next(self._next_key)
        attr.base_mr = base._mr if base is not None else None
        mr = c_void_p()
        check(self._ops.mr.contents.regattr(self._domain, byref(attr), flags, byref(mr)), "fi_mr_regattr")
        owned = _Owned(self, *([base] if base is not None else []))
        owned.add(mr.value, "region")
        owned.on_release(memory.release)
        region = self._adopt(Region(self, memory, access, mr.value, owned))
        return base._adopt(region) if base is not None else region

    def endpoint(self):
        """An endpoint with a queue and addresses of its own."""
        owned = _Owned(self)
        with self._use():
            try:
                return self._adopt(Endpoint(self, owned))
            except BaseException:
                owned.close()
                raise

    def stats(self):
        """Figures: regions, registered_bytes, mapped_keys, endpoints."""
        ops, stats = c_void_p(), _abi.hmreg_domain_stats(size=sizeof(_abi.hmreg_domain_stats))
        with self._use():
            check(self._ops.fid.ops.contents.ops_open(self._domain, b"hmreg_domain_ops", 0, byref(ops), None),
                  "fi_open_ops")
            check(_abi.hmreg_domain_ops.from_address(ops.value).stats(self._domain, byref(stats)), "stats")
        return {name: getattr(stats, name) for name, _ in stats._fields_[1:]}

    def __repr__(self):
        return "<hmreg.Domain %s%s>" % (self.name, ", closed" if self.closed else "")


# ---- endpoints ----

_SLICE = 0.2  # seconds; so often a wait looks for signals


class Endpoint(_Object):
    """Moves bytes between regions.  Operations are posted, have a number, and complete in wait().

    Regions of operations that are under way are kept alive.  Threads may share an endpoint; each wait() takes
    whichever completion comes next.
    """

    def __init__(self, domain, owned):
        self.domain = domain
        of_domain = domain._ops.ops.contents
        av = _abi.fi_av_attr(count=1)
        cq = _abi.fi_cq_attr(format=_abi.FI_CQ_FORMAT_DATA, wait_obj=_abi.FI_WAIT_UNSPEC)
        self._av = owned.add(_open_by(of_domain.av_open, domain._domain, byref(av), "fi_av_open"), "vector")
        self._cq = owned.add(_open_by(of_domain.cq_open, domain._domain, byref(cq), "fi_cq_open"), "queue")
        self._ep = owned.add(_open_by(of_domain.endpoint, domain._domain, byref(domain._info), "fi_endpoint"),
                             "endpoint")
        self._fid = _abi.fid_ep.from_address(self._ep)
        ops = self._fid.fid.ops.contents
        check(ops.bind(self._ep, self._av, 0), "fi_ep_bind")
        check(ops.bind(self._ep, self._cq, _abi.FI_TRANSMIT | _abi.FI_RECV), "fi_ep_bind")
        check(ops.control(self._ep, _abi.FI_ENABLE, None), "fi_enable")
        self._numbers = itertools.count(1)
        self._pending = {}
        super().__init__(owned)

    @property
    def address(self):
        """Where it is: bytes for a peer's connect()."""
        name, size = (c_char * 128)(), c_size_t(128)
        with self._use():
            check(self._fid.cm.contents.getname(self._ep, name, byref(size)), "fi_getname")
        return name.raw[:size.value]

    def connect(self, address):
        """The peer at an address, for the calls below."""
        peer, error = c_uint64(), c_int(errno.EHOSTUNREACH)
        data = create_string_buffer(bytes(address), max(len(address), 128))
        with self._use():
            insert = _abi.fid_av.from_address(self._av).ops.contents.insert
            ret = insert(self._av, data, 1, byref(peer), _abi.FI_SYNC_ERR, cast(byref(error), c_void_p))
        if check(ret, "fi_av_insert") != 1:
            raise Error(error.value, "fi_av_insert")
        return peer.value

    def write(self, source, peer, target):
        """Writes a region, or a range of one, to a peer's memory (Remote).  The operation's number."""
        _room(source, target)
        return self._post("fi_write", "rma", "write", source, peer, target.address, target.key)

    def read(self, target, peer, source):
        """Reads a peer's memory (Remote) into a region, or a range of one."""
        _room(target, source)
        return self._post("fi_read", "rma", "read", target, peer, source.address, source.key)

    def send(self, source, peer):
        """Sends a message."""
        return self._post("fi_send", "msg", "send", source, peer)

    def receive(self, target, peer=_abi.FI_ADDR_UNSPEC):
        """Offers a region, or a range of one, to the next message of a peer, or of anyone."""
        return self._post("fi_recv", "msg", "recv", target, peer)

    def _post(self, name, table, slot, local, peer, *remote):
        """hmreg.Error FI_EAGAIN: the queue is full; wait() makes room."""
        for given in (peer, *remote):
            whole("peer, address or key", given, operation=name)
        number = next(self._numbers)
        self._pending[number] = local
        try:
            with self._use(), local.region._use():
                call = getattr(getattr(self._fid, table).contents, slot)
                ret = call(self._ep, local.address, local.size, local.region._desc, peer, *remote, number)
        except BaseException:
            del self._pending[number]
            raise
        if ret < 0:
            del self._pending[number]
        check(ret, name)
        return number

    def wait(self, timeout=None):
        """The next completion.  TimeoutError after so many seconds; OperationError for one that failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if deadline is None else min(_SLICE, max(deadline - time.monotonic(), 0))
            with self._use():
                done = self._next(int(left * 1000))
            if done is not None:
                return done
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("no completion in %s seconds" % timeout)

    def _next(self, milliseconds):
        """One completion, or None."""
        entry = _abi.fi_cq_data_entry()
        sread = _abi.fid_cq.from_address(self._cq).ops.contents.sread
        ret = sread(self._cq, byref(entry), 1, None, milliseconds)
        if ret == 1:
            self._pending.pop(entry.op_context, None)
            return Completion(entry.op_context, entry.flags, entry.len, entry.data)
        if ret == -_abi.CODES["FI_EAVAIL"]:
            raise self._failed()
        if ret not in (0, -errno.EAGAIN, -errno.EINTR):
            check(ret, "fi_cq_sread")
        return None

    def _failed(self):
        ops = _abi.fid_cq.from_address(self._cq).ops.contents
        entry = _abi.fi_cq_err_entry()
        check(ops.readerr(self._cq, byref(entry), 0), "fi_cq_readerr")
        self._pending.pop(entry.op_context, None)
        text = ops.strerror(self._cq, entry.prov_errno, entry.err_data, None, 0)
        return OperationError(entry.err, "operation %d" % (entry.op_context or 0), text.decode() if text else None,
                              entry.op_context or 0, entry.prov_errno)


def _room(local, remote):
    if local.size > remote.size:
        raise IndexError("%d bytes on this side, %d on the other" % (local.size, remote.size))
