"""Events, one at a time: views are fresh after each, epochs hold many.

A commit costs microseconds at best, an event a tenth of one. So events gather in an epoch that is still open. It closes
when somebody looks: reading a view, another ``apply``, any statement, ``flush`` or the end of the warehouse. So a
reader sees every event before it, and whoever feeds a million events and looks once has paid for one commit.

An event that cannot be (a row that leaves and is not there, an overflow) is refused alone, as if each event had been
applied by itself: those before it are committed, those after it are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue, DataError
from tidemill.model.schema import Table
from tidemill.model.types import Field

if TYPE_CHECKING:
    from threading import RLock

FieldsOf = Callable[[str], tuple[Field, ...]]

FULL = 100_000
"""So many events close an epoch by themselves, so that what a crash could lose is bounded, and memory too."""

Event = tuple[str, Row, int]
"""A relation, a row in its inner form, and how often it comes."""


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
    """What has been fed and is in no epoch yet; ``apply`` commits changes of tables as one epoch, under ``lock``."""

    def __init__(self, lock: RLock, apply: Callable[[dict[str, ChangeSet]], int], fields_of: FieldsOf) -> None:
        self._lock = lock
        self._apply = apply
        self._fields_of = fields_of
        self._pending: list[Event] = []

    def take(self, event: Event) -> None:
        """Add an event to the open epoch; a full one is closed."""
        with self._lock:
            self._pending.append(event)
        if len(self._pending) >= FULL:
            self.flush()

    def flush(self) -> None:
        """Close the open epoch, if it has events."""
        if not self._pending:
            return
        with self._lock:
            pending, self._pending = self._pending, []
            try:
                self._commit(pending)
            except DataError:
                if len(pending) == 1:
                    raise
                self._one_by_one(pending)

    def _one_by_one(self, pending: Sequence[Event]) -> None:
        """Find the event that is at fault: all others are taken, it is reported."""
        for place, event in enumerate(pending):
            try:
                self._commit([event])
            except DataError:
                self._pending = [*pending[place + 1 :], *self._pending]
                raise

    def _commit(self, events: Sequence[Event]) -> None:
        pairs: dict[str, list[tuple[Row, int]]] = {}
        for name, row, weight in events:
            pairs.setdefault(name, []).append((row, weight))
        self._apply({name: ChangeSet.of(rows, self._fields_of(name)) for name, rows in pairs.items()})
