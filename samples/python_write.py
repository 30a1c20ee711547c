#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# A write through a key, in Python: two buffers of one process.  python_write.py [DOMAIN]
import sys
import hmreg

source, target = bytearray(b"written from Python"), bytearray(19)
with hmreg.open(*sys.argv[1:]) as domain:
    endpoint = domain.endpoint()
    itself = endpoint.connect(endpoint.address)
    here = domain.register(source, hmreg.Access.WRITE)
    there = domain.register(target, hmreg.Access.REMOTE_WRITE)
    endpoint.write(here, itself, there.remote)
    endpoint.wait()
print(target.decode())
