# SPDX-License-Identifier: BSD-2-Clause
"""Memory registration for RDMA: hmreg from Python, over libhmreg's C interface.  hmreg_python(3)

    with hmreg.open() as domain:
        region = domain.register(bytearray(4096))
        print(region.key, region.address)

An object's memory is registered where it is: whatever has the buffer protocol (bytearray, mmap, NumPy),
__dlpack__ (PyTorch, CuPy, JAX) or __cuda_array_interface__.  It lives as long as the region is open.
Calls let other threads of the interpreter run.
"""

from ._errors import Error, OperationError
from ._objects import Access, Completion, Domain, Endpoint, Iface, Port, Range, Region, Remote, open, ports

__all__ = ["Access", "Completion", "Domain", "Endpoint", "Error", "Iface", "OperationError", "Port", "Range",
           "Region", "Remote", "open", "ports"]
