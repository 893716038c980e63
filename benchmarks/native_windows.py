"""Cost of an epoch of window functions, in Python and in machine code: ``python -m benchmarks.native_windows``.

A stage over a stream is run by the native runtime alone. CPU time, because the machine may have other work; both back
ends take the same changes, and must emit the same rows.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from random import Random

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.storage.memory_store import MemoryStore

DDL = "CREATE STREAM t (k INT NOT NULL, at BIGINT NOT NULL, v INT NOT NULL)"
FUNCTIONS = {
    "LAG(v)": "LAG(v) OVER (PARTITION BY k ORDER BY at)",
    "ROW_NUMBER()": "ROW_NUMBER() OVER (PARTITION BY k ORDER BY at)",
    "SUM(v)": "SUM(v) OVER (PARTITION BY k ORDER BY at)",
    "SUM(v) of 100 rows": "SUM(v) OVER (PARTITION BY k ORDER BY at ROWS 100 PRECEDING)",
    "MAX(v) of 100 rows": "MAX(v) OVER (PARTITION BY k ORDER BY at ROWS 100 PRECEDING)",
}
ROWS = 100_000
FEW_ROWS = 64
"""Row count up to which a change comes as Python rows."""


class Subject:
    """A stage on one back end; the first epoch loads it."""

    def __init__(self, function: str, backend: str) -> None:
        (table,) = (s.table for s in parse(DDL) if isinstance(s, CreateTable))
        sql = f"SELECT k, at, {FUNCTIONS[function]} AS w FROM t"
        relation = translate(sql, {"t": table.fields}, name="v").relation
        (self._stage,) = compile_view("v", relation, {"t": table}, "delta").stages
        self._runtime = NativeRuntime(MemoryStore(), lambda name: table.fields, backend=backend)
        self._runtime.install(self._stage)
        self._table, self._epoch = table, 0

    def take(self, pairs: list[WeightedRow]) -> tuple[float, ZSet]:
        """The seconds of an epoch, and the change of the view."""
        change = ChangeSet.of(pairs, self._table.fields)
        if len(pairs) > FEW_ROWS:
            change = ChangeSet.of_arrow(change.arrow(), self._table.fields)
        self._epoch += 1
        started = time.process_time()
        self._runtime.begin(self._epoch)
        self._runtime.fire(self._stage, "t", change)
        emitted = self._runtime.emit(self._stage)
        self._runtime.commit()
        return time.process_time() - started, emitted.zset()


def history(partitions: int, kind: str, size: int, rows: int) -> Iterator[list[WeightedRow]]:
    """The rows that are loaded; then changes: so many appended rows, or half as many that have another value."""
    chance = Random(1)
    held: list[Row] = [(i % partitions, i * 10, i % 97) for i in range(rows)]
    yield [(row, 1) for row in held]
    last = rows * 10
    while True:
        pairs: list[WeightedRow] = []
        for _ in range(size if kind == "appended" else max(size // 2, 1)):
            value = chance.randrange(97)
            if kind == "appended":
                pairs.append(((chance.randrange(partitions), last, value), 1))
                last += 10
            else:
                place = chance.randrange(rows)
                old, held[place] = held[place], (*held[place][:2], value)
                pairs += [(old, -1), (held[place], 1)]
        yield pairs


def measure(function: str, partitions: int, kind: str, size: int, epochs: int, rows: int = ROWS) -> tuple[float, float]:
    """The median of some epochs in milliseconds, in Python and in machine code."""
    python, compiled = Subject(function, "python"), Subject(function, "llvm")
    taken: list[tuple[float, float]] = []
    for _, pairs in zip(range(epochs + 2), history(partitions, kind, size, rows), strict=False):
        (one, wanted), (other, found) = python.take(pairs), compiled.take(pairs)
        assert found == wanted, f"{function} over {partitions} partitions"
        taken.append((one * 1e3, other * 1e3))
    slow, fast = (statistics.median(times) for times in zip(*taken[2:], strict=True))  # after a load and a first change
    return slow, fast


def main() -> None:
    """Print a table for documentation."""
    for function in FUNCTIONS:
        for partitions in (100, 1):
            cells = []
            for kind in ("appended", "changed"):
                for size, epochs in ((1, 15), (10_000, 1)):
                    slow, fast = measure(function, partitions, kind, size, epochs)
                    cells.append(f"{slow:,.2f} / {fast:,.2f}")
            sys.stdout.write(f"| `{function}` | {partitions} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
