"""Memory limit of this process: state that does not fit stays in the store, an epoch that does not is refused.

The limit is on the resident memory of the process, native maps included; a Spark JVM has limits of its own. Runtimes
ask for the ``room`` before they read state, and look rows up in the store that they have none for. When an epoch begins
and little is left, the state that was least recently used is released.

An epoch that does not fit, by the measured cost of a row before it starts or at its end, is undone and tried once more
without any state in memory; then it is refused. The maps of machine code count their memory and get the available room
when an epoch begins, so they stop before they allocate more. In each case the warehouse is unchanged, and the machine
does not swap.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidemill.model.errors import OutOfBudget, SetupError

UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

INITIAL_BYTES_PER_ROW = 200.0
"""Estimated bytes of a row of a change, until epochs have been measured."""

LEFT_FREE = 8
"""The part of the limit that is free when an epoch begins, if state can be released for it: one of so many."""

MEASURED_ROWS = 10_000
"""Smallest number of rows of an epoch from which the cost of a row is measured: below, allocator noise dominates."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = "/proc/self/statm"
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in GNU libc


def parse_size(size: str | int) -> int:
    """Parse a size with an optional unit into bytes.

    >>> parse_size("4GB"), parse_size("512 mb"), parse_size(1000)
    (4294967296, 536870912, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(size).upper())
    if found is None or found[2] not in UNITS:
        raise SetupError(f"{size!r} is not an amount of memory", hint='Write it like "4GB" or "512MB".')
    return int(float(found[1]) * UNITS[found[2]])


def resident_bytes() -> int:
    """Resident memory of this process in bytes; its peak if the system does not report the present value."""
    try:
        file = os.open(_STATM, os.O_RDONLY)  # called several times an epoch, so without buffered I/O
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    try:
        return int(os.read(file, 256).split()[1]) * _PAGE
    finally:
        os.close(file)


def return_free_memory() -> None:
    """Return freed memory to the system: allocators keep it otherwise, mostly that of small blocks."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


class MemoryBudget:
    """A limit in bytes, None for none, and the measured cost of a row of a change."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.release_paused: Callable[[], None] = lambda: None
        """Releases state that has missed epochs."""
        self.release_state: Callable[[int], int] = lambda wanted: 0
        """Releases other state, at the beginning of an epoch: so many bytes, of the least recently used."""
        self._row = INITIAL_BYTES_PER_ROW
        self._sparing = False

    def room(self) -> int | None:
        """Bytes that this process may still allocate; None without a limit."""
        if self.limit is None:
            return None
        held = resident_bytes()
        if 2 * held > self.limit:
            self.release_paused()
            held = resident_bytes()
        return max(self.limit - held, 0)

    def admit(self, rows: int, *, stored: bool = True) -> int:
        """Refuse an epoch of this many rows if it will not fit; returns the bytes that are in use before it.

        If all state is ``stored``, some of it is released first.
        """
        assert self.limit is not None
        before = resident_bytes()
        needed = int(rows * (INITIAL_BYTES_PER_ROW if self._sparing else self._row))
        excess = before + max(needed, self.limit // LEFT_FREE) - self.limit
        if excess > 0:
            if stored and self.release_state(excess):
                gc.collect()
            return_free_memory()
            before = resident_bytes()
        self._require(before + needed, before, f"{rows:,} rows")
        return before

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Within, a row costs what it does by itself: what was measured is the cost of the state that it needs, too."""
        before, self._sparing = self._sparing, True
        try:
            yield
        finally:
            self._sparing = before

    def measure(self, rows: int, before: int) -> None:
        """Refuse an epoch of this many rows if it has turned out not to fit, and note the cost of a row."""
        after = resident_bytes()
        if rows >= MEASURED_ROWS:
            self._row = max((after - before) / rows, self._row / 2)
        self._require(after, after, f"{rows:,} rows")

    def _require(self, needed: int, held: int, work: str) -> None:
        assert self.limit is not None
        if needed <= self.limit:
            return
        self.release_paused()
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
