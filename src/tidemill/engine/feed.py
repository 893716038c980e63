"""Events, one at a time: views are fresh after each, epochs hold many.

A commit costs microseconds at best, an event a tenth of one. So events move the views at once, but in an epoch that
stays open. It closes when somebody looks: reading a view, another ``apply``, any statement, ``flush`` or the end of the
warehouse. So a reader sees every event before it, and whoever feeds a million events and looks once has paid for a few
commits.

An event that cannot be (a row that leaves and is not there, an overflow) is refused alone, as if each event had been
applied by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from tidemill.changes.batch import ChangeSet, Epoch
from tidemill.changes.zset import Row
from tidemill.engine.pipeline import Walk, check_tables
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue, DataError
from tidemill.model.schema import Table
from tidemill.runtimes.runtime import Runtime

if TYPE_CHECKING:
    from tidemill.engine.engine import Engine

FULL = 100_000
"""So many events close an epoch by themselves, so that what a crash could lose is bounded, and memory too."""

Event = tuple[str, Row, int]
"""A relation, a row in its inner form, and how often it comes."""

Durable = Callable[[], None]
"""Waits until an epoch is safe on disk."""


class Feed:
    """The entry for events of one table or stream: ``feed(+1, *row)``.

    >>> import tidemill
    >>> with tidemill.open(":memory:") as wh:
    ...     _ = wh.sql("CREATE STREAM clicks (page STRING)")
    ...     _ = wh.sql("CREATE MATERIALIZED VIEW hits AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page")
    ...     click = wh.feed("clicks")
    ...     click(+1, "home"); click(+1, "home")
    ...     wh.view("hits").rows()
    [('home', 2)]
    """

    def __init__(self, table: Table, events: Events) -> None:
        self._name = table.name
        self._convert = row_coercer(table.fields, table.name)
        self._events = events

    def __call__(self, weight: int, *row: Any) -> None:
        """Take one event in."""
        if type(weight) is not int:
            raise BadValue(f"{weight!r} is not a weight", where=self._name, hint="An insert is +1, a delete -1.")
        self._events.take((self._name, self._convert(row), weight))


class Events:
    """The epoch that events go to, while it is open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: OpenEpoch | None = None
        self._taken: list[Event] = []

    def take(self, event: Event) -> None:
        """Let all views follow one event; a full epoch is closed."""
        with self._engine.lock:
            self._handle(event)
            if len(self._taken) >= FULL:
                self.flush()

    def _handle(self, event: Event) -> None:
        if self._open is None:
            self._open = OpenEpoch(self._engine)
        try:
            self._open.take(event)
        except DataError:
            # The event may have done half of its work, so the epoch goes back to its beginning and then without it.
            taken = self._abandon()
            for earlier in taken:
                self._handle(earlier)
            raise
        self._taken.append(event)

    def _abandon(self) -> list[Event]:
        assert self._open is not None
        taken, self._taken = self._taken, []
        self._open.undo()
        self._open = None
        return taken

    def flush(self) -> None:
        """Close the open epoch, if there is one."""
        if self._open is None:
            return
        with self._engine.lock:
            open_, self._open, taken, self._taken = self._open, None, self._taken, []
            try:
                durable = open_.close(taken)
            except DataError:
                if len(taken) == 1:
                    raise
                durable = self._close_each(taken)
        durable()
        self._engine.tend()

    def _close_each(self, taken: list[Event]) -> Durable:
        """Find the event whose row of some view cannot be: each gets an epoch of its own, up to that one."""
        durable: Durable = _nothing
        for place, event in enumerate(taken):
            try:
                self._handle(event)
                assert self._open is not None
                open_, self._open, self._taken = self._open, None, []
                durable = open_.close([event])
            except DataError:
                for later in taken[place + 1 :]:
                    self._handle(later)
                raise
        return durable


class OpenEpoch:
    """An epoch that changes are handed to one by one. Until it is closed nobody else sees it."""

    def __init__(self, engine: Engine) -> None:
        engine.require_writable()
        self._engine = engine
        self._number = engine.store.epoch + 1
        self._stack = ExitStack()
        self._runtimes: list[Runtime] = self._stack.enter_context(engine.between(self._number, 1))
        self._walk: Walk = engine.pipeline.start(self._runtimes)

    def take(self, event: Event) -> None:
        """Carry one event to every view."""
        name, row, weight = event
        change = ChangeSet.of([(row, weight)], self._engine.fields_of(name))
        (possible,) = check_tables({name: change}, self._engine.catalog.tables, self._runtimes[0]).values()
        self._walk.take(name, possible)

    def undo(self) -> None:
        """Leave everything as it was before the epoch."""
        with suppress(_Undone), self._stack:
            raise _Undone

    def close(self, events: Sequence[Event]) -> Durable:
        """Commit the epoch, which has taken ``events``; what is returned waits until it is durable."""
        rows: dict[str, list[tuple[Row, int]]] = {}
        for name, row, weight in events:
            rows.setdefault(name, []).append((row, weight))
        with self._stack:
            fields_of = self._engine.fields_of
            self._walk.stored.update({name: ChangeSet.of(pairs, fields_of(name)) for name, pairs in rows.items()})
            self._walk.finish()
            stored = self._engine.collect(self._walk, self._runtimes)
        return self._engine.commit(Epoch(self._number, stored))


class _Undone(Exception):
    """Ends an epoch as an error would."""


def _nothing() -> None:
    """There was no epoch to wait for."""
