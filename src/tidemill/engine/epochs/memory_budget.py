"""How much memory this process may use, and the refusal of an epoch that would need more.

The limit is on what the process holds, native maps included; a Spark JVM has limits of its own. An epoch is refused
before it starts where the rows that it brings would not fit, by what rows have cost so far, and undone at its end where
it grew beyond the limit all the same. The maps of machine code count what they take, and are told the ``room`` there is
when an epoch begins: there it ends before memory is taken that is not to be had. In each case the warehouse is as it
was, and the machine has not begun to swap.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pyarrow as pa

from tidemill.model.errors import OutOfBudget, SetupError

UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

INITIAL_BYTES_PER_ROW = 200.0
"""Bytes that a row of a change costs, until epochs have shown better."""

MEASURED_ROWS = 10_000
"""Only epochs of so many rows teach what a row costs: below, the noise of the allocator is larger."""

_UNLIMITED = nullcontext()
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = "/proc/self/statm"
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only GNU's library has it


def parse_size(size: str | int) -> int:
    """Bytes from a size as people write it.

    >>> parse_size("4GB"), parse_size("512 mb"), parse_size(1000)
    (4294967296, 536870912, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(size).upper())
    if found is None or found[2] not in UNITS:
        raise SetupError(f"{size!r} is not an amount of memory", hint='Write it like "4GB" or "512MB".')
    return int(float(found[1]) * UNITS[found[2]])


def resident_bytes() -> int:
    """The bytes that this process holds in memory; where the system does not say, the most it ever held."""
    try:
        file = os.open(_STATM, os.O_RDONLY)  # asked for several times an epoch, so without the layers above
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    try:
        return int(os.read(file, 256).split()[1]) * _PAGE
    finally:
        os.close(file)


def return_free_memory() -> None:
    """Let the system have what this process has freed: allocators keep it, most of all where small pieces lay."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


class MemoryBudget:
    """A limit in bytes, None for none, and what a row of a change has been found to cost."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.release: Callable[[], None] = lambda: None
        """Gives back what is in memory only because it may be needed again."""
        self._row = INITIAL_BYTES_PER_ROW

    def room(self) -> int | None:
        """How many bytes more this process may hold now, None for any number."""
        if self.limit is None:
            return None
        held = resident_bytes()
        if 2 * held > self.limit:
            self.release()
            held = resident_bytes()
        return max(self.limit - held, 0)

    def epoch(self, rows: int) -> AbstractContextManager[None]:
        """Refuse an epoch of so many rows where it would not fit, or did not."""
        return _UNLIMITED if self.limit is None else self._limited(rows)

    @contextmanager
    def _limited(self, rows: int) -> Iterator[None]:
        before = resident_bytes()
        self._require(before + int(rows * self._row), before, f"{rows:,} rows")
        yield
        after = resident_bytes()
        if rows >= MEASURED_ROWS:
            self._row = max((after - before) / rows, self._row / 2)
        self._require(after, after, f"{rows:,} rows")

    def _require(self, needed: int, held: int, work: str) -> None:
        assert self.limit is not None
        if needed <= self.limit:
            return
        self.release()
        gc.collect()
        return_free_memory()
        needed, held = needed - held + resident_bytes(), resident_bytes()
        if needed <= self.limit:
            return
        raise OutOfBudget(
            f"an epoch of {work} does not fit into the memory budget",
            detail=f"It needs about {_text(needed)}, of at most {_text(self.limit)}; {_text(held)} are in use.",
            hint='Apply the change in smaller parts, give the warehouse more memory="...", or use runtime="spark".',
        )


def _text(size: int) -> str:
    return f"{size / (1 << 30):.2f} GB"
