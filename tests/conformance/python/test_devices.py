# SPDX-License-Identifier: BSD-2-Clause
"""Other libraries' arrays as regions: DLPack capsules and __cuda_array_interface__, of host memory and of
accelerators.  Drivers that are not here leave out what is about them."""

import ctypes
import gc
import os
import subprocess
import sys

import hmreg
import producer
import scene
from hmreg import Access, Iface
from producer import CudaArray, DeviceArray, NewTensor, OldTensor

SIZE = 8192
HOST, MANAGED = 1, 2  # enum hmreg_hmem_kind


class Devices(scene.Case):
    HMEM = True

    @classmethod
    def setUpClass(cls):
        """Drivers start when they are first used, and keep files."""
        super().setUpClass()
        with hmreg.open(scene.DOMAIN, hmem=True) as domain:
            for iface in (Iface.CUDA, Iface.ROCR, Iface.ZE):
                try:
                    DeviceArray(domain, iface, SIZE).free()
                except OSError:
                    pass

    def setUp(self):
        super().setUp()
        self.arrays = []

    def tearDown(self):
        gc.collect()
        for array in self.arrays:
            array.free()
        self.assertEqual(producer._alive, {}, "a tensor was not deleted")
        self.assertEqual(producer.twice, [], "a tensor was deleted twice")
        super().tearDown()

    def array(self, iface=Iface.CUDA, device=0, kind=0):
        try:
            array = DeviceArray(self.domain, iface, SIZE, device, kind)
        except OSError:
            self.skipTest("no %s driver, or it has no such memory" % iface.name)
        self.arrays.append(array)
        return array

    def moves(self, obj, array, **named):
        """Bytes go from the host into the object's memory and back, by its key, and are where the driver has it."""
        text = bytes(reversed(range(256))) * (SIZE // 256)
        back = bytearray(SIZE)
        endpoint, peer = self.pair()
        with endpoint, self.domain.register(text) as here, self.domain.register(back) as again, \
                self.domain.register(obj, **named) as there:
            self.assertEqual([there.address, there.size], [array.address, SIZE])
            endpoint.write(here, peer, there.remote)
            endpoint.wait(20)
            self.assertEqual(array.bytes(), text)
            array.fill(b"from the device")
            endpoint.read(again[:15], peer, there.remote.at(0, 15))
            endpoint.wait(20)
            self.assertEqual(back[:16], b"from the device\0")
            endpoint.write(there[:8], peer, again[100:].remote)  # device memory as source
            endpoint.wait(20)
            self.assertEqual(back[99:109], b"\0from the\0")
            return there

    # ---- __cuda_array_interface__ ----

    def test_python_cuda_array(self):
        array = self.array()
        region = self.moves(CudaArray(array, stream=2), array)
        self.assertEqual([region.iface, region.device, region.stream, region.protocol],
                         [Iface.CUDA, 0, 2, "cuda"])

    def test_python_cuda_array_of_another_device(self):
        """The protocol does not tell which; the driver does."""
        array = self.array(device=1)
        self.assertEqual(self.moves(CudaArray(array), array).device, 1)

    def test_python_cuda_array_layouts(self):
        array = self.array()
        for other in ({"shape": (64, 128), "strides": (128, 1)}, {"shape": (64, 128), "strides": (1, 64)},
                      {"shape": (32, 64), "typestr": "<f4", "strides": None},
                      {"shape": (1, 32, 64), "typestr": "<f4", "strides": (999, 256, 4)},
                      {"shape": (4, 16, 32), "typestr": "<f4", "strides": (128, 512, 4), }):
            region = self.domain.register(CudaArray(array, **other))
            self.assertEqual([region.address, region.size], [array.address, SIZE])
            region.close()
        for other in ({"shape": (64, 64), "strides": (128, 1)}, {"shape": (64,), "strides": (2,)},
                      {"shape": (64,), "strides": (-1,)}):
            self.refused("FI_EINVAL", "not contiguous", self.domain.register, CudaArray(array, **other))
        self.refused("FI_EINVAL", "masked", self.domain.register, CudaArray(array, mask=CudaArray(array)))
        self.refused("FI_EINVAL", "stream 0", self.domain.register, CudaArray(array, stream=0))
        self.refused("FI_EINVAL", "bits", self.domain.register, CudaArray(array, typestr="|t1"))

    def test_python_cuda_array_that_lies(self):
        array = self.array()
        for words, other in (("strides (1,) for shape (4, 4)", {"shape": (4, 4), "strides": (1,)}),
                             ("strides () for shape (64,)", {"shape": (64,), "strides": ()}),
                             ("shape (64, -1)", {"shape": (64, -1)}), ("shape (-8, -8)", {"shape": (-8, -8)}),
                             ("size", {"shape": (1 << 40, 1 << 40)}),
                             ("shape (18446744073709559808,)", {"shape": ((1 << 64) + SIZE,)}),
                             ("end of the memory", {"shape": ((1 << 64) - 1,)}),
                             ("address", {"data": (-4096, False)}), ("address", {"data": (1 << 64, False)}),
                             ("not as the protocol", {"data": (1, 2, 3)}), ("not as the protocol", {"data": None}),
                             ("not as the protocol", {"typestr": ""}), ("not as the protocol", {"typestr": "f"}),
                             ("not as the protocol", {"typestr": 4}), ("not as the protocol", {"shape": 7}),
                             ("not as the protocol", {"strides": 7})):
            self.refused("FI_EINVAL", words, self.domain.register, CudaArray(array, **other))
        missing = CudaArray(array)
        del missing.__cuda_array_interface__["data"]
        self.refused("FI_EINVAL", "missing", self.domain.register, missing)
        for shape in ((8192.0,), ("8",), (None,)):
            with self.assertRaises(TypeError):
                self.domain.register(CudaArray(array, shape=shape))

    def test_python_cuda_array_read_only(self):
        array = self.array()
        obj = CudaArray(array, data=(array.address, True))
        self.refused("FI_EACCES", "read only", self.domain.register, obj, Access.REMOTE_WRITE)
        with self.domain.register(obj) as region:
            self.assertEqual(region.access, Access.SEND | Access.WRITE | Access.REMOTE_READ)

    def test_python_cuda_array_that_is_none(self):
        array = self.array()
        memory = bytearray(SIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.refused("FI_EINVAL", "its driver knows nothing of it", self.domain.register,
                     CudaArray(array, data=(address, False)))

    def test_python_domain_without_accelerators(self):
        array = self.array()
        with hmreg.open(scene.DOMAIN) as domain:
            tensor = OldTensor(array.address, (SIZE,), kind=2)
            for obj in (CudaArray(array), tensor):
                self.refused("FI_EOPNOTSUPP", "hmem=True", domain.register, obj)
            self.assertEqual([tensor.made, tensor.deleted], [1, 1])

    # ---- DLPack ----

    def test_python_dlpack_device(self):
        for kind in (OldTensor, NewTensor):
            array = self.array()
            tensor = kind(array.address, (SIZE,), kind=2)
            region = self.moves(tensor, array)
            self.assertEqual([region.iface, region.device, region.protocol], [Iface.CUDA, 0, "dlpack"])
            self.assertEqual([tensor.made, tensor.deleted], [1, 1])
            if kind is NewTensor:
                self.assertEqual(tensor.asked, ((1, 0), False))

    def test_python_dlpack_interfaces(self):
        """Each device type that there is a driver of, here or in another run of this program."""
        done = []
        for number, iface, kind in ((2, Iface.CUDA, 0), (13, Iface.CUDA, MANAGED), (3, Iface.CUDA, HOST),
                                    (10, Iface.ROCR, 0), (14, Iface.ZE, 0)):
            try:
                array = DeviceArray(self.domain, iface, SIZE, 0, kind)
            except OSError:
                continue
            self.arrays.append(array)
            tensor = NewTensor(array.address, (SIZE,), kind=number)
            try:
                region = self.moves(tensor, array)
            except hmreg.Error as error:  # some memory has no way to some NICs, and that is told
                self.assertIn(error.name, ("FI_EOPNOTSUPP",), number)
                self.assertEqual(number, 13)
            else:
                self.assertEqual(region.iface, Iface.SYSTEM if number == 3 else iface)
            self.assertEqual([tensor.made, tensor.deleted], [1, 1])
            done.append(number)
        if not done:
            self.skipTest("no accelerator at all")

    def test_python_dlpack_deleter_is_called_once(self):
        memory = bytearray(SIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for kind in (OldTensor, NewTensor):
            tensor = kind(address, (SIZE // 4,), bits=32)
            region = self.domain.register(tensor)
            self.assertEqual([region.size, region.iface, region.protocol], [SIZE, Iface.SYSTEM, "dlpack"])
            part = region[:64].register()
            gc.collect()
            self.assertEqual([tensor.made, tensor.deleted], [1, 0])
            self.refused("FI_EBUSY", "region", region.close)
            self.assertEqual(tensor.deleted, 0)
            part.close()
            region.close()
            self.assertEqual(tensor.deleted, 1)
            region.close()
            del region, part
            gc.collect()
            self.assertEqual(tensor.deleted, 1)
            self.domain.register(tensor)  # and forgotten
            gc.collect()
            self.assertEqual([tensor.made, tensor.deleted], [2, 2])

    def test_python_dlpack_host(self):
        memory = bytearray(64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        endpoint, peer = self.pair()
        with endpoint, self.domain.register(b"text") as here, \
                self.domain.register(NewTensor(address, (4, 4), offset=8)) as there:
            self.assertEqual([there.address, there.size], [address + 8, 16])
            endpoint.write(here, peer, there.remote)
            endpoint.wait(20)
        self.assertEqual(memory[7:13], b"\0text\0")

    def test_python_dlpack_refused(self):
        """Whatever is wrong is told, and the tensor is given back."""
        memory = bytearray(64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for words, tensor in (("not contiguous", NewTensor(address, (4, 4), strides=(8, 1))),
                              ("not contiguous", OldTensor(address, (8,), strides=(2,))),
                              ("a copy", NewTensor(address, (8,), flags=2)),
                              ("version 2", NewTensor(address, (8,), major=2))):
            self.refused("FI_EINVAL", words, self.domain.register, tensor)
            self.assertEqual([tensor.made, tensor.deleted], [1, 1])
        unknown = NewTensor(address, (8,), kind=8)
        self.refused("FI_EOPNOTSUPP", "type 8", self.domain.register, unknown)
        self.assertEqual(unknown.made, 0)
        tensor = NewTensor(address, (8,))
        self.refused("FI_EINVAL", "fi_mr_regattr", self.domain.register, tensor, 1 << 63)  # by the library
        self.assertEqual([tensor.made, tensor.deleted], [1, 1])
        with self.domain.register(NewTensor(address, (2, 3), strides=(1, 2))) as region:
            self.assertEqual(region.size, 6)

    def test_python_dlpack_that_lies(self):
        """Each is refused, and given back; what it says is not cut down to what fits into C's integers."""
        memory = bytearray(64)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for words, shape, said, other in (
                ("-1 axes", (8,), {"ndim": -1}, {}), ("65 axes", (8,), {"ndim": 65}, {}),
                ("2147483647 axes", (8,), {"ndim": (1 << 31) - 1}, {}),
                ("without a shape", (8,), {"shape": ctypes.POINTER(ctypes.c_int64)()}, {}),
                ("shape (8, -1)", (8, -1), {}, {}), ("shape (-8, -8)", (-8, -8), {}, {}),
                ("size", (1 << 62, 8), {}, {}), ("size", (1 << 61, 16), {}, {"bits": 32}),
                ("end of the memory", ((1 << 63) - 1, 1), {}, {"bits": 16}),
                ("address", (8,), {}, {"offset": (1 << 64) - 1})):
            for kind in (OldTensor, NewTensor):
                tensor = kind(address, shape, **other)
                tensor.said = said
                self.refused("FI_EINVAL", words, self.domain.register, tensor)
                self.assertEqual([tensor.made, tensor.deleted], [1, 1])

    def test_python_dlpack_read_only(self):
        tensor = NewTensor(ctypes.addressof(ctypes.c_char.from_buffer(bytearray(64))), (64,), flags=1)
        self.refused("FI_EACCES", "read only", self.domain.register, tensor, Access.RECV)
        with self.domain.register(tensor) as region:
            self.assertTrue(region.readonly)
        self.assertEqual([tensor.made, tensor.deleted], [2, 2])

    def test_python_dlpack_used_capsule(self):
        memory = bytearray(64)
        tensor = OldTensor(ctypes.addressof(ctypes.c_char.from_buffer(memory)), (64,))
        capsule = tensor.__dlpack__()
        tensor.__dlpack__ = None
        again = type("Again", (), {"__dlpack__": lambda self: capsule,
                                   "__dlpack_device__": lambda self: (1, 0)})()
        with self.domain.register(again):
            with self.assertRaisesRegex(TypeError, "used"):
                self.domain.register(again)
        self.assertEqual(tensor.deleted, 1)
        unused = tensor._capsule(True)
        del unused, capsule
        self.assertEqual([tensor.made, tensor.deleted], [2, 2])

    def test_python_protocol_by_name(self):
        array = self.array()
        both = CudaArray(array)
        tensor = OldTensor(array.address, (SIZE,), kind=2)
        type(both).__dlpack__ = lambda self: tensor.__dlpack__()
        type(both).__dlpack_device__ = lambda self: (2, 0)
        try:
            for named, expected in (({}, "dlpack"), ({"protocol": "cuda"}, "cuda"),
                                    ({"protocol": "dlpack"}, "dlpack")):
                with self.domain.register(both, **named) as region:
                    self.assertEqual(region.protocol, expected)
        finally:
            del type(both).__dlpack__, type(both).__dlpack_device__
        self.assertEqual([tensor.made, tensor.deleted], [2, 2])

    def test_python_dlpack_at_the_end_of_the_interpreter(self):
        """The deleter is called while Python still runs, after the region is closed."""
        text = ("import ctypes, hmreg, producer\n"
                "domain = hmreg.open(%r)\n"
                "memory = bytearray(64)\n"
                "class Told(producer.OldTensor):\n"
                "    deleted = property(lambda self: 0, lambda self, n: n and print('deleted', n, flush=True))\n"
                "tensor = Told(ctypes.addressof(ctypes.c_char.from_buffer(memory)), (64,))\n"
                "region = domain.register(tensor)\n" % scene.DOMAIN)
        ran = subprocess.run([sys.executable, "-B", "-W", "always", "-c", text], capture_output=True, text=True,
                             cwd=os.path.dirname(os.path.abspath(__file__)),
                             env={**os.environ, "FI_LOG_LEVEL": "warn"}, check=False, timeout=120)
        self.assertEqual([ran.returncode, ran.stdout, ran.stderr], [0, "deleted 1\n", ""])


if __name__ == "__main__":
    scene.main()
