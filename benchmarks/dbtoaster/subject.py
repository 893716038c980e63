"""A case under way: its view in a warehouse of its own, fed from the stream, readable after every event."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import tidemill
from benchmarks.dbtoaster.case import Case
from benchmarks.dbtoaster.queries import QUERIES, READS, STATIC, declarations
from benchmarks.dbtoaster.stream import Event, Stream
from tidemill.changes.zset import Row
from tidemill.engine.results import MapSize
from tidemill.model.errors import Unsupported

VIEW = "answer"


class Subject:
    """The view of one case. ``compile_s`` are the seconds from its definition to its first fresh answer.

    Nothing that was compiled before helps it: its cache of compiled code is empty.
    """

    def __init__(self, case: Case, stream: Stream) -> None:
        self._case = case
        self._stream = stream
        self._cache = TemporaryDirectory(prefix="tidemill-bench-")
        self._before = anonymous_bytes()
        self._warehouse = tidemill.open(":memory:", runtime="native", backend=case.backend)
        self._warehouse.sql(declarations(case.query))
        self._warehouse.apply(stream.static)
        with _environment("XDG_CACHE_HOME", self._cache.name):
            start = time.perf_counter()
            self._warehouse.sql(f"CREATE MATERIALIZED VIEW {VIEW} WITH ({_options(case)}) AS {QUERIES[case.query]}")
            self._feeds = {relation: self._warehouse.feed(relation) for relation in stream.tables}
            self.feed(0, 1)
            self.compile_s = time.perf_counter() - start
        self._require_backend()

    def _require_backend(self) -> None:
        """A figure of compiled code must not be one of the interpreter that stood in for it."""
        explained = self._warehouse.view(VIEW).explain()
        if (self._case.backend == "llvm") != ("compiled with LLVM" in explained):
            raise Unsupported(f"{self._case.name} does not run on its back end", detail=explained)

    def feed(self, start: int, stop: int) -> float:
        """Take in the events from ``start`` to before ``stop``, with a refresh after each; gives the seconds.

        What a source would do anyway, reading its rows, is not counted.
        """
        if self._case.single:
            return self._singly(list(self._stream.events(start, stop)))
        piece = self._stream.cut(start, stop)
        begin = time.perf_counter()
        self._warehouse.replay(piece.tables, piece.turns)
        return time.perf_counter() - begin

    def _singly(self, events: list[Event]) -> float:
        """One call for each event."""
        calls = [(self._feeds[relation], weight, row) for relation, weight, row in events]
        begin = time.perf_counter()
        for feed, weight, row in calls:
            feed(weight, *row)
        return time.perf_counter() - begin

    def bytes(self) -> int:
        """The memory of the maps; where they do not say, all that was taken since the warehouse was opened."""
        sizes = [size.bytes for size in self._sizes()]
        return sum(size for size in sizes if size is not None) or max(anonymous_bytes() - self._before, 0)

    def entries(self) -> int:
        """How many entries the maps hold of which the memory is known."""
        return sum(size.entries for size in self._sizes() if size.bytes is not None)

    def _sizes(self) -> list[MapSize]:
        return self._warehouse.view(VIEW).sizes()

    def rows(self) -> list[Row]:
        """The answer as it is now."""
        return list(self._warehouse.view(VIEW).rows())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warehouse.close()
        self._cache.cleanup()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _options(case: Case) -> str:
    depth = case.depth if case.depth.isdigit() else f"'{case.depth}'"
    static = ", ".join(name for name in READS[case.query] if name in STATIC)
    return f"strategy = 'viewlet', depth = {depth}" + (f", static = '{static}'" if static else "")


def anonymous_bytes() -> int:
    """Bytes of memory that this process has and no file stands behind: the stream itself does not count."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])
