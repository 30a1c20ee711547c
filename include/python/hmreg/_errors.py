# SPDX-License-Identifier: BSD-2-Clause
"""What calls raise."""

import errno

from . import _abi

_NAMES = {code: name for name, code in _abi.CODES.items()}
_NAMES[errno.EOPNOTSUPP] = "FI_EOPNOTSUPP"  # errno has another name for it, too
_NAMES[errno.EAGAIN] = "FI_EAGAIN"


def name_of(code):
    """FI_EBUSY for 16."""
    return _NAMES.get(code) or "FI_" + errno.errorcode.get(code, "E%d" % code)


class Error(Exception):
    """A call failed.

    code: the FI_E code, positive; name: as in FI_EBUSY; text: what fi_strerror says; operation: the call;
    detail: more about the cause, where this module knows it.  With FI_LOG_LEVEL=warn in the environment the
    library's log has the cause of every refused call in one line.
    """

    def __init__(self, code, operation, detail=None):
        self.code, self.operation, self.detail = code, operation, detail
        self.name = name_of(code)
        self.text = _abi.library().fi_strerror(code).decode()
        super().__init__("%s: %s: %s" % (operation, self.name, detail or self.text))

    def __reduce__(self):
        return type(self), (self.code, self.operation, self.detail)


class OperationError(Error):
    """A posted operation failed: op is its number, cause a value of enum hmreg_error."""

    def __init__(self, code, operation, detail=None, op=0, cause=0):
        super().__init__(code, operation, detail)
        self.op, self.cause = op, cause

    def __reduce__(self):
        return type(self), (self.code, self.operation, self.detail, self.op, self.cause)


def check(ret, operation):
    """What a call returned, unless it is a negative code."""
    if ret < 0:
        raise Error(-ret, operation)
    return ret
