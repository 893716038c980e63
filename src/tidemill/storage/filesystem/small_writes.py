"""Writes of a few bytes, during which this thread keeps the interpreter's lock.

``os.pwrite`` gives the lock up. To copy a few hundred bytes to the page cache takes five microseconds; to get the lock
back from a thread that was waiting for it takes as long as that thread goes on, and two switches between threads.
"""

from __future__ import annotations

import ctypes
import os

SMALL_BYTES = 8192
"""Length up to which a write does not wait for other threads."""

_pwrite = ctypes.PyDLL(None, use_errno=True).pwrite
_pwrite.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64)
_pwrite.restype = ctypes.c_ssize_t


def pwrite(handle: int, content: bytes, at: int) -> int:
    """Write ``content`` to byte ``at`` of a file; returns how many bytes were written, as ``os.pwrite`` does."""
    if len(content) > SMALL_BYTES:
        return os.pwrite(handle, content, at)
    written: int = _pwrite(handle, content, len(content), at)
    if written < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return written
