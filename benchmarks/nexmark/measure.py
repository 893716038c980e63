"""Runs one case: its first events are compared before anything is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tidemill
from benchmarks.dbtoaster.stream import Stream
from benchmarks.dbtoaster.subject import anonymous_bytes
from benchmarks.nexmark.case import NAMES, Case, Outcome
from benchmarks.nexmark.oracle import Oracle
from tests.nexmark.queries import QUERIES, SCHEMA
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model.errors import TidemillError

PREFIX = 30_000
"""Events before those that are timed: the view is compared after them, and compiled where it will be."""

SINGLES, MOST_SINGLES = 200, 2_000
"""Epochs of one event: so many at the end of the prefix, and at most so many are timed."""

UNBOUNDED = 1 << 40
"""The rows that may wait for who takes them after every epoch."""


class Subject:
    """The view of a case in a warehouse of its own; one event comes as a pair, more come as Arrow tables."""

    def __init__(self, case: Case, stream: Stream, warehouse: tidemill.Warehouse) -> None:
        self._stream = stream
        self._warehouse = warehouse
        self._follower: Subscription | None = None
        schema = SCHEMA
        if case.relation == "stream":
            schema = schema.replace("CREATE TABLE", "CREATE STREAM").replace(" PRIMARY KEY", "")
        warehouse.sql(schema)
        strategy = f"WITH (strategy = '{case.strategy}')"
        warehouse.sql(f"CREATE MATERIALIZED VIEW answer {strategy} AS {QUERIES[NAMES[case.query]]}")
        if case.subscribed:
            self._follower = warehouse.subscribe("answer", timeout=0, buffer=UNBOUNDED, form="arrow")

    def prepare(self, start: int, stop: int) -> dict[str, Any]:
        """The events from ``start`` to before ``stop`` as a caller has them."""
        if stop - start == 1:
            ((name, weight, row),) = self._stream.events(start, stop)
            return {name: [(weight, row)]}
        return {name: table for name, table in self._stream.cut(start, stop).tables.items() if table.num_rows}

    def apply(self, prepared: dict[str, Any]) -> None:
        """One epoch; whoever follows has its changes after it."""
        self._warehouse.apply(prepared)
        for batch in self._follower or ():
            batch.encoded()

    def check(self, query: str, events: int, oracle: Oracle, who: str) -> int:
        """Compare the rows of the view."""
        return oracle.check(NAMES[query], events, self._warehouse.view("answer").arrow(), who)

    def state(self) -> tuple[int | None, int]:
        """The bytes of all maps that tell, and how many entries these have."""
        told = [size for size in self._warehouse.view("answer").sizes() if size.bytes is not None]
        return (sum(size.bytes or 0 for size in told) if told else None, sum(size.entries for size in told))


@contextmanager
def subject_of(case: Case, stream: Stream) -> Iterator[Subject]:
    """A case under way."""
    with tidemill.open(":memory:", runtime="native") as warehouse:
        yield Subject(case, stream, warehouse)


def measure(
    case: Case, stream: Stream, oracle: Oracle, limit: float, process: Callable[[], int | None] = lambda: None
) -> Outcome:
    """Run ``case`` to the end of the stream, or for about ``limit`` seconds.

    ``process`` is asked for the bytes of the process at the end. A wrong answer ends everything with ``WrongAnswer``.
    What a strategy does not do is an outcome with its reason.
    """
    try:
        with subject_of(case, stream) as subject:
            done = _prefix(case, subject)
            rows = subject.check(case.query, done, oracle, case.name)
            stop = min(len(stream), done + MOST_SINGLES) if case.size == 1 else len(stream)
            run = Run(subject, case.size, done)
            run.go(stop, limit)
            state, entries = subject.state()
            return Outcome(
                case,
                run.done - done,
                run.seconds,
                run.cpu,
                tuple(run.each),
                rows,
                state,
                entries,
                process(),
                run.done >= stop,
            )
    except TidemillError as error:
        return Outcome(case, reason=error.what)


def measure_alone(case: Case, folder: Path, limit: float) -> Outcome:
    """The same in a process of its own, whose memory is then that of the case; the stream is kept in ``folder``."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_alone, (case, folder, limit))


def _measure_alone(case: Case, folder: Path, limit: float) -> Outcome:
    stream = Stream.load(folder)
    with Oracle(stream) as oracle:
        # Once, so that everything is loaded and compiled; what this leaves behind is used again.
        measure(case, stream.cut(0, PREFIX), oracle, 0.0)
        before = anonymous_bytes()
        return measure(case, stream, oracle, limit, lambda: anonymous_bytes() - before)


def _prefix(case: Case, subject: Subject) -> int:
    """The events that are not timed, in epochs as those that are; gives how many they are."""
    size = PREFIX if case.size == 1 else case.size
    count = max(PREFIX, size)
    for start in range(0, count, size):
        subject.apply(subject.prepare(start, start + size))
    if case.size > 1:
        return count
    for start in range(count, count + SINGLES):
        subject.apply(subject.prepare(start, start + 1))
    return count + SINGLES


class Run:
    """How far a subject has come: events done, seconds by the clock and of the processor, and those of each epoch."""

    def __init__(self, subject: Subject, size: int, done: int) -> None:
        self._subject = subject
        self._size = size
        self.done = done
        self.seconds, self.cpu = 0.0, 0.0
        self.each: list[float] = []

    def go(self, stop: int, limit: float) -> None:
        """Take in events up to ``stop``, or until so many seconds have been spent on events in all."""
        while self.done < stop and self.seconds < limit:
            prepared = self._subject.prepare(self.done, min(self.done + self._size, stop))
            cpu, begin = time.process_time(), time.perf_counter()
            self._subject.apply(prepared)
            self.each.append(time.perf_counter() - begin)
            self.cpu += time.process_time() - cpu
            self.seconds += self.each[-1]
            self.done = min(self.done + self._size, stop)
