# SPDX-License-Identifier: BSD-2-Clause
"""Regions of Python's own objects: where they are, what they allow, who keeps whom, and who closes what."""

import array
import ctypes
import gc
import mmap
import os
import pickle
import subprocess
import sys
import threading
import weakref

import hmreg
import scene
from hmreg import Access

PAGE = mmap.PAGESIZE


def address_of(writable):
    return ctypes.addressof(ctypes.c_char.from_buffer(writable))


class Buffer(bytearray):
    """One that can be referred to weakly."""


class Regions(scene.Case):
    def copy(self, source, target, size=None):
        """From region to region, by an operation on the NIC."""
        endpoint, peer = self.pair()
        with endpoint:
            number = endpoint.write(source, peer, target.remote)
            done = endpoint.wait(20)
        self.assertEqual(done.op, number)

    # ---- bytes arrive where objects are ----

    def test_python_write_between_objects(self):
        """Each kind of object as source and as target, none of them copied."""
        text = bytes(range(256)) * 16
        with mmap.mmap(-1, len(text)) as mapped:
            objects = [bytearray(text), array.array("d", text), (ctypes.c_char * len(text)).from_buffer_copy(text),
                       memoryview(bytearray(b"x" + text + b"y"))[1:-1], mapped]
            mapped[:] = text
            for source in objects:
                for target in (bytearray(len(text)), array.array("I", bytes(len(text)))):
                    with self.domain.register(source, Access.WRITE) as here, \
                            self.domain.register(target, Access.REMOTE_WRITE) as there:
                        self.assertEqual(there.address, address_of(target))
                        self.assertEqual([here.size, there.size], [len(text)] * 2)
                        self.copy(here, there)
                        self.assertEqual(bytes(memoryview(target).cast("B")), text)
            del source, objects

    def test_python_read(self):
        source, target = b"what a peer has", bytearray(15)
        endpoint, peer = self.pair()
        with endpoint, self.domain.register(source) as there, self.domain.register(target) as here:
            endpoint.read(here, peer, there.remote)
            endpoint.wait(20)
        self.assertEqual(target, source)

    def test_python_messages(self):
        source, target = b"a message", bytearray(64)
        endpoint, peer = self.pair()
        with endpoint, self.domain.register(source, Access.SEND) as here, \
                self.domain.register(target, Access.RECV) as there:
            received = endpoint.receive(there)
            sent = endpoint.send(here, peer)
            done = {one.op: one for one in (endpoint.wait(20), endpoint.wait(20))}
        self.assertEqual(set(done), {received, sent})
        self.assertEqual(done[received].size, 9)
        self.assertEqual(target[:10], b"a message\0")

    def test_python_dmabuf(self):
        self.domain.close()
        with hmreg.open(scene.DOMAIN, hmem=True) as self.domain:
            file = os.memfd_create("dma-buf")
            os.ftruncate(file, 2 * PAGE)
            with mmap.mmap(file, 2 * PAGE) as seen:
                there = self.domain.register_dmabuf(file, PAGE, Access.REMOTE_WRITE, offset=PAGE,
                                                    base=address_of(seen))
                os.close(file)
                here = self.domain.register(b"into a dma-buf", Access.WRITE)
                self.copy(here, there)
                self.assertEqual(seen[PAGE:PAGE + 14], b"into a dma-buf")
                there.close()
                gc.collect()

    def test_python_plain_address(self):
        target = Buffer(64)
        gone = weakref.ref(target)
        here = self.domain.register(b"by address", Access.WRITE)
        there = self.domain.register_address(address_of(target), 64, Access.REMOTE_WRITE, keep=target)
        del target
        self.copy(here, there)
        self.assertEqual(gone()[:10], b"by address")
        there.close()
        self.assertIsNone(gone())
        here.close()

    def test_python_numbers_that_c_has_not(self):
        """What does not fit into C's integers is refused: cut down, it would be another address."""
        target = bytearray(64)
        at, wrap = address_of(target), 1 << 64
        for words, arguments in (("address", (at + wrap, 64)), ("address", (at - wrap, 64)), ("size", (at, 64 + wrap)),
                                 ("size", (at, -1)), ("end of the memory", (wrap - 64, 65)),
                                 ("access", (at, 64, Access.SEND | wrap))):
            self.refused("FI_EINVAL", words, self.domain.register_address, *arguments)
        file = os.memfd_create("dma-buf")
        for words, named in (("fd", {"fd": file + (1 << 32)}), ("offset", {"offset": -1}), ("base", {"base": -1}),
                             ("offset", {"offset": wrap}), ("size", {"size": wrap + 64})):
            self.refused("FI_EINVAL", words, self.domain.register_dmabuf, **{"fd": file, "size": 64, **named})
        os.close(file)
        for wrong in (("1", 64), (at, 64.0), (at, None)):
            with self.assertRaises(TypeError):
                self.domain.register_address(*wrong)
        with self.assertRaisesRegex(ValueError, "protocol 'numpy' is none of"):
            self.domain.register(target, protocol="numpy")
        with self.assertRaisesRegex(ValueError, "no name"):
            hmreg.open(self.domain.name + "\0")
        endpoint, peer = self.pair()
        with endpoint, self.domain.register(b"x") as here, self.domain.register(target) as there:
            for remote in (there.remote._replace(address=there.remote.address + wrap),
                           there.remote._replace(key=there.key + wrap), there.remote._replace(key=-1)):
                self.refused("FI_EINVAL", "fi_write: FI_EINVAL: peer, address or key", endpoint.write, here, peer,
                             remote)
            self.refused("FI_EINVAL", "fi_send", endpoint.send, here, peer + wrap)
            self.assertEqual(self.domain.stats()["regions"], 2)

    # ---- what objects allow ----

    def test_python_read_only_memory(self):
        source = bytes(64)
        with self.domain.register(source) as region:
            self.assertTrue(region.readonly)
            self.assertEqual(region.access, Access.SEND | Access.WRITE | Access.REMOTE_READ)
        for access in (Access.REMOTE_WRITE, Access.RECV, Access.READ, Access.SEND | Access.REMOTE_WRITE):
            error = self.refused("FI_EACCES", "read only", self.domain.register, source, access)
            self.assertIn((access & ~Access.SEND).name, error.detail)
        writable = bytearray(64)
        self.refused("FI_EACCES", "read only", self.domain.register, memoryview(writable).toreadonly(),
                     Access.REMOTE_WRITE)
        writable.extend(b"the refused one lets go of it")
        with self.domain.register(writable) as region:
            self.assertFalse(region.readonly)
            self.assertEqual(region.access, sum(Access))

    def test_python_not_contiguous(self):
        for strange in (memoryview(bytearray(64))[::2], memoryview(bytearray(64))[::-1]):
            self.refused("FI_EINVAL", "not contiguous", self.domain.register, strange)
            strange.release()  # BufferError while somebody has it

    def test_python_no_memory_at_all(self):
        for nothing in (None, 7, "text", [1, 2]):
            with self.assertRaisesRegex(TypeError, "buffer protocol"):
                self.domain.register(nothing)

    def test_python_object_is_held(self):
        """It can be neither resized nor freed while a NIC may reach it."""
        held = Buffer(4096)
        gone = weakref.ref(held)
        region = self.domain.register(held)
        with self.assertRaises(BufferError):
            held.extend(b"x")
        del held
        gc.collect()
        self.assertIsNotNone(gone())
        self.copy(region[:8], region[8:16])
        region.close()
        gc.collect()
        self.assertIsNone(gone())
        resized = bytearray(64)
        self.domain.register(resized).close()
        resized.extend(b"x")

    # ---- parts ----

    def test_python_ranges(self):
        memory = bytearray(b"0123456789abcdef")
        with self.domain.register(memory) as region:
            part = region[4:8]
            self.assertEqual([part.address, part.size, part.key, part.desc],
                             [region.address + 4, 4, region.key, region.desc])
            self.assertEqual(part.remote, region.remote.at(4, 4))
            self.assertEqual([len(region[2:][3:5]), region[2:][3:5].address], [2, region.address + 5])
            self.assertEqual(region[-4:].address, region.address + 12)
            self.assertEqual(region[100:].size, 0)
            with self.assertRaises(TypeError):
                region[3]
            with self.assertRaises(ValueError):
                region[::2]
            self.copy(region[:4], region[12:])
            for offset, size in ((17, 0), (0, 17), (-1, 2), (8, -1)):
                with self.assertRaises(IndexError):
                    region.remote.at(offset, size)
            endpoint, peer = self.pair()
            with endpoint, self.assertRaises(IndexError):
                endpoint.write(region, peer, part.remote)
        self.assertEqual(memory, b"0123456789ab0123")

    def test_python_part_with_a_key_of_its_own(self):
        memory = bytearray(3 * PAGE)
        base = self.domain.register(memory, Access.REMOTE_READ)
        part = base[PAGE:2 * PAGE].register(Access.REMOTE_WRITE)
        here = self.domain.register(b"into a part", Access.WRITE)
        self.assertNotEqual(part.key, base.key)
        self.copy(here, part)
        self.assertEqual(memory[PAGE:PAGE + 11], b"into a part")
        self.assertEqual(memory.count(0), len(memory) - 11)
        self.refused("FI_EBUSY", "region", base.close)
        self.assertEqual(base.size, len(memory))  # as good as before
        del base
        gc.collect()  # the part keeps it
        self.assertEqual(self.domain.stats()["regions"], 3)
        part.close()
        del part
        here.close()
        gc.collect()
        self.assertEqual(self.domain.stats()["regions"], 0)

    # ---- failures ----

    def test_python_errors_say_what_failed(self):
        error = self.refused("FI_ENODATA", "fi_getinfo", hmreg.open, "no-such-domain")
        self.assertEqual([error.operation, error.code], ["fi_getinfo", 61])
        self.assertEqual(error.text, "No data available")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual([str(again), again.code], [str(error), error.code])
        self.refused("FI_EINVAL", "fi_mr_regattr", self.domain.register, bytearray(8), 1 << 63)
        with self.pair()[0] as endpoint:
            self.refused("FI_EINVAL", "fi_av_insert", endpoint.connect, b"\xff" * 16)

    def test_python_failed_operation(self):
        target = bytearray(b"untouched")
        here, there = self.domain.register(b"never"), self.domain.register(target, Access.REMOTE_READ)
        endpoint, peer = self.pair()
        number = endpoint.write(here, peer, there.remote)
        with self.assertRaises(hmreg.OperationError) as caught:
            endpoint.wait(20)
        error = caught.exception
        self.assertEqual([error.op, error.name], [number, "FI_EACCES"])
        self.assertIn(error.cause, (4, 19))  # HMREG_NO_RIGHT, HMREG_REMOTE_ACCESS
        self.assertTrue(error.detail)
        self.assertEqual(target, b"untouched")
        with self.assertRaises(TimeoutError):
            endpoint.wait(0)
        for one in (endpoint, here, there):
            one.close()

    # ---- closing ----

    def test_python_busy_domain(self):
        region = self.domain.register(bytearray(64))
        self.refused("FI_EBUSY", "domain", self.domain.close)
        self.assertFalse(self.domain.closed)
        self.domain.register(bytearray(64)).close()
        region.close()
        self.domain.close()
        self.domain.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            self.domain.register(bytearray(64))

    def test_python_with_closes_all_that_is_open(self):
        memory = bytearray(64)
        with hmreg.open(scene.DOMAIN) as domain:
            endpoint = domain.endpoint()
            base = domain.register(memory)
            part = base[:8].register()
        for one in (part, base, endpoint, domain):
            self.assertTrue(one.closed)
        memory.extend(b"free")
        for gone in (lambda: base.key, lambda: base.desc, lambda: base.remote, base[:4].register,
                     lambda: endpoint.address, domain.stats):
            with self.assertRaisesRegex(ValueError, "closed"):
                gone()

    def test_python_forgotten_objects(self):
        """The garbage collector closes them, in a cycle as well, and parents after what is in them."""
        domain = hmreg.open(scene.DOMAIN)
        held = Buffer(64)
        gone, gone_domain = weakref.ref(held), weakref.ref(domain)
        cycle = [domain, domain.register(held), domain.endpoint()]
        cycle.append(cycle)
        del domain, held, cycle
        for _ in range(3):
            gc.collect()
        self.assertIsNone(gone())
        self.assertIsNone(gone_domain())

    def program(self, text, *, status=0):
        """What a program of its own prints, and on standard error nothing but what it was told to."""
        ran = subprocess.run([sys.executable, "-B", "-W", "always", "-c", text], capture_output=True, text=True,
                             env={**os.environ, "FI_LOG_LEVEL": "warn"}, check=False, timeout=120)
        self.assertEqual([ran.returncode, ran.stderr], [status, ""])
        return ran.stdout

    def test_python_end_of_the_interpreter(self):
        """What is open then is closed in the right order: nothing is refused, which the log would tell."""
        self.program("import hmreg\n"
                     "domain = hmreg.open(%r)\n"
                     "base = domain.register(bytearray(8192))\n"
                     "endpoint = domain.endpoint()\n"
                     "part = base[:4096].register()\n"
                     "again = hmreg.open(%r)\n"
                     "cycle = [again.register(b'x' * 64)]\n"
                     "cycle.append(cycle)\n" % (scene.DOMAIN, scene.DOMAIN))

    def test_python_daemon_threads_at_the_end_of_the_interpreter(self):
        """They still run while it is closed: nothing is closed below them, twice, or left."""
        for _ in range(5):
            self.program("import hmreg, threading, time\n"
                         "domain = hmreg.open(%r)\n"
                         "base = domain.register(bytearray(8192))\n"
                         "endpoint = domain.endpoint()\n"
                         "def registers(*_):\n"
                         "    try:\n"
                         "        while True:\n"
                         "            with domain.register(bytearray(4096)), base[:64].register():\n"
                         "                pass\n"
                         "    except ValueError:\n"
                         "        pass\n"
                         "def waits(*_):\n"
                         "    try:\n"
                         "        endpoint.wait()\n"
                         "    except ValueError:\n"
                         "        pass\n"
                         "for work in [registers] * 4 + [waits] * 2:\n"
                         "    threading.Thread(target=work, daemon=True).start()\n"
                         "time.sleep(0.02)\n" % scene.DOMAIN)

    def test_python_what_cannot_be_closed_is_told(self):
        self.program("import hmreg, warnings\n"
                     "said = []\n"
                     "warnings.showwarning = lambda message, *_: said.append(str(message))\n"
                     "import os; os.environ['FI_LOG_LEVEL'] = ''\n"
                     "domain = hmreg.open(%r)\n"
                     "region = domain.register(bytearray(64))\n"
                     "region._finalizer.detach()\n"  # somebody else's, as far as the module knows
                     "domain._finalizer()\n"
                     "assert len(said) == 1 and 'FI_EBUSY' in said[0], said\n"
                     "region._owned.close()\n" % scene.DOMAIN)

    def test_python_child_of_fork(self):
        """A child that ends in the usual way closes nothing of its parent's."""
        self.program("import atexit, hmreg, os, sys\n"
                     "mother = os.getpid()\n"
                     "def look():\n"  # after the finalizers, which are registered later
                     "    left = bool(domain._owned._open)\n"
                     "    os._exit(3 if left != (os.getpid() != mother) else 0)\n"
                     "atexit.register(look)\n"
                     "domain = hmreg.open(%r)\n"
                     "target = bytearray(64)\n"
                     "here, there = domain.register(b'still here'), domain.register(target)\n"
                     "child = os.fork()\n"
                     "if child == 0:\n"
                     "    sys.exit(0)\n"
                     "assert os.waitpid(child, 0)[1] == 0\n"
                     "endpoint = domain.endpoint()\n"
                     "endpoint.write(here, endpoint.connect(endpoint.address), there.remote)\n"
                     "endpoint.wait(20)\n"
                     "assert target[:10] == b'still here'\n" % scene.DOMAIN)

    # ---- threads ----

    def test_python_threads_register(self):
        failures = []

        def work():
            try:
                for _ in range(50):
                    memory = bytearray(4096)
                    with self.domain.register(memory) as region, region[16:32].register():
                        pass
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_python_calls_let_other_threads_run(self):
        """A thread that is blocked in the library is waited for by what another one does."""
        endpoint, peer = self.pair()
        here, there = self.domain.register(b"x"), self.domain.register(bytearray(1))
        ready, result = threading.Event(), []

        def wait():
            ready.set()
            result.append(endpoint._next(60000))  # one call of the library

        thread = threading.Thread(target=wait)
        thread.start()
        ready.wait()
        number = endpoint.write(here, peer, there.remote)
        thread.join()
        self.assertEqual(result[0].op, number)
        for one in (endpoint, here, there):
            one.close()

    def test_python_close_ends_waits(self):
        endpoint = self.domain.endpoint()
        result, entered = [], threading.Event()

        def wait():
            try:
                entered.set()
                endpoint.wait()
            except ValueError as error:
                result.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        entered.wait()
        endpoint.close()
        thread.join()
        self.assertEqual(len(result), 1)

    def test_python_ports(self):
        names = [port.name for port in hmreg.ports()]
        self.assertIn(self.domain.name, names)
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(self.domain.port, hmreg.ports())
        self.assertEqual(self.domain.port.provider, "hmreg")


if __name__ == "__main__":
    scene.main()
