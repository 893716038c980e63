"""Events, one at a time: views are fresh after each event, an epoch holds many.

A commit costs microseconds at best, an event a tenth of one. So events update the views at once, but in an epoch that
stays open. It closes at the next access: reading a view, another ``apply``, any statement, ``flush`` or closing the
warehouse. So a reader sees every earlier event, and a million events followed by one read cost only a few commits.

An invalid event (a delete of a row that does not exist, an overflow) is refused alone, as if each event had been
applied by itself. There are two paths. If all stages that read a stream are compiled, its feed is machine code
(``runtimes.native.llvm.stage.event_entry``), and the events of an epoch are in a buffer. Otherwise they are in a list.
Events that come as columns (``replay``) go to machine code as they are, and are refused together. Those of tables,
whose rows are stored and checked, are applied like the changes of an epoch wherever their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.engine.calls.running_calls import RunningCalls
from tidemill.engine.epochs.apply import apply_changes
from tidemill.engine.epochs.commit import EpochCommitter, WaitUntilDurable
from tidemill.engine.epochs.single_events.event_order import EventOrder, appending_entry, event_slices, rows_put_back
from tidemill.engine.epochs.single_events.open_epoch import OpenEpoch, RowEvent
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.transaction import EpochTransaction
from tidemill.model.errors import BadValue, DataError, Unsupported
from tidemill.model.schema import LARGEST_WEIGHT, Table, late_table
from tidemill.program.joingraph import Serve
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.integrity import check_append_only
from tidemill.runtimes.runtime import MachineCode

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.stage.event_entry import EventBuffer, EventEntry

MAX_OPEN_EVENTS = 100_000
"""Number of events after which an epoch is closed, to bound memory and the loss in a crash."""

MAX_PENDING_ROWS = 2_000_000
"""Number of rows waiting to be published after which an epoch is closed."""

FEW_EVENTS = 64
"""Number of events up to which those of tables are applied one by one."""

REPLAY_SLICE = 8_192
"""Number of events replayed between two counts of the rows waiting to be published."""


class EventFeed:
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

    def __init__(self, table: Table, events: EventWriter) -> None:
        self._name = table.name
        self._convert = table.row_converter
        self._events = events

    def __call__(self, weight: int, *row: Any) -> None:
        """Apply one event."""
        if type(weight) is not int or not -LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
            raise BadValue(f"{weight!r} is not a weight", where=self._name, hint="An insert is +1, a delete -1.")
        self._events.take((self._name, self._convert(row), weight))


class EventWriter:
    """Writes events into an epoch that stays open. ``after`` is called outside the lock after a commit."""

    def __init__(
        self,
        state: EngineState,
        transaction: EpochTransaction,
        epochs: EpochCommitter,
        calls: RunningCalls,
        after: Callable[[], None],
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._epochs = epochs
        self._calls = calls
        self._after = after
        self._open: OpenEpoch | None = None
        self._taken: list[RowEvent] = []
        self._moving: _InFlightEvents | None = None
        self._tape: EventBuffer | None = None
        self._fed: set[str] = set()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Hold the warehouse lock, with all fed events committed, and after an exception the state recovered.

        Every read or change of the warehouse runs inside this context.
        """
        if self._calls.by_thread:
            self._calls.wait_for(self._state.lock)
        with self._state.lock:
            self.settle()
            yield

    def settle(self) -> None:
        """Commit all fed events, and after an exception recover the last commit first; the caller holds the lock."""
        if not self._transaction.settled:
            self._transaction.recover()
            self.flush()

    def feed(self, table: Table) -> Callable[..., None]:
        """The fastest entry for events of ``table``."""
        with self.settled():
            stages = self._machine_code(table)
            if not stages:
                return EventFeed(table, self)
            call = self._entry(table, stages).call
            return appending_entry(table, call) if table.append_only else call

    def take(self, event: RowEvent) -> None:
        """Propagate one event to all views; a full epoch is closed."""
        with self._state.lock:
            self._transaction.recover()
            if self._fed or (self._tape is not None and self._tape.used):
                self.flush()
            if self._is_guarded(event[0]):
                self._take_alone(event)
            else:
                self._handle(event)
            if len(self._taken) >= MAX_OPEN_EVENTS:
                self.flush()

    def replay(self, changes: Mapping[str, ChangeSet], turns: EventOrder) -> None:
        """Apply many events: for each of ``turns`` the next row of the relation at that index in ``changes``."""
        with self._state.lock:
            self._transaction.recover()
            if not self._fed:
                self.flush()
            known = self._state.catalog.tables
            stages = [self._machine_code(known[name]) for name in changes]
            if all(stages):
                for name, change in changes.items():
                    if known[name].append_only:
                        check_append_only(known[name], change)
                self._replay_columns(changes, turns, [stage for some in stages for stage in some])
                return
            self.flush()
            tables = {name: change.arrow() for name, change in changes.items()}
            for some, rows in event_slices(turns, tables, MAX_OPEN_EVENTS):
                self._replay_rows(some, rows)

    @property
    def busy(self) -> bool:
        """True if an epoch is open."""
        return self._open is not None

    def flush(self) -> None:
        """Commit the open epoch, if there is one; after an exception, first recover the last commit.

        A running epoch of another thread is not waited for: callers that need it hold the lock.
        """
        if self._transaction.settled or self._transaction.elsewhere:
            return
        with self._state.lock:
            self._transaction.recover()
            if self._open is None:  # another thread was first
                return
            durable = self._close_open()
        durable()
        self._after()

    def _close_open(self) -> WaitUntilDurable:
        assert self._open is not None
        self._transaction.begin()
        fed = self._fed.union(self._tape.relations() if self._tape is not None else ())
        self._moving = _InFlightEvents(self._state.store.epoch, self._taken, fed=bool(fed))
        open_, self._open, taken, self._taken, self._fed = self._open, None, self._taken, [], set()
        if self._tape is not None:
            self._tape.close_until_epoch()
        try:
            durable = self._close_with(open_, taken, fed)
        except DataError:
            self._moving = None
            raise
        self._moving = None
        return durable

    def _close_with(self, open_: OpenEpoch, taken: list[RowEvent], fed: Iterable[str]) -> WaitUntilDurable:
        if fed:
            return _close_fed(open_, fed)
        if taken:
            return self._close(open_, taken)
        open_.undo()
        return _nothing

    def resume(self) -> None:
        """Apply fed events that are in no committed epoch again, after an exception and recovery of the last commit.

        Events that went to machine code are stored nowhere else: an error says that they are undone.
        """
        moving = self._moving or _InFlightEvents(self._state.store.epoch, self._taken, fed=self._is_fed)
        left = moving.left(self._state.store.epoch)
        self._moving = _InFlightEvents(self._state.store.epoch, left)
        self._open, self._taken, self._fed = None, [], set()
        if self._tape is not None:
            self._tape.close_until_epoch()
        refused = self._apply_again(left)
        if refused:
            raise _refused_together(refused)
        if moving.lost(self._state.store.epoch):
            raise DataError(
                "events that were fed are undone",
                detail="An interruption came before their epoch was committed.",
                hint=f"Feed those again that came after epoch {self._state.store.epoch}.",
            )

    @property
    def _is_fed(self) -> bool:
        """True if the open epoch has events that went to machine code."""
        return self._open is not None and bool(self._fed or (self._tape is not None and self._tape.used))

    def _is_guarded(self, table: str) -> bool:
        """True if events of a table reach a view that sets rows aside: each is then an epoch of its own."""
        guarded = self._state.catalog.guarded
        return bool(guarded) and any(one.program.view in guarded for one in self._state.pipeline.reached_by([table]))

    def _take_alone(self, event: RowEvent) -> None:
        self.flush()
        change = ChangeSet.of([event[1:]], self._state.fields_of(event[0]))
        self._apply({event[0]: change})

    def _apply(self, changes: Mapping[str, ChangeSet]) -> None:
        with garbage_collection_paused():
            _, durable = apply_changes(self._state, self._epochs, changes, {}, owned=False, late=False)
        durable()
        self._after()

    # -- events in a list ---------------------------------------------------------------------------------------

    def _handle(self, event: RowEvent) -> None:
        open_ = self._opened()
        try:
            open_.take(event)
        except DataError:
            self._go_back()
            raise
        self._taken.append(event)
        self._transaction.gather()

    def _opened(self) -> OpenEpoch:
        """The open epoch, for an event that is about to change it."""
        if self._open is None:
            self._open = OpenEpoch(self._state, self._epochs)
        else:
            self._transaction.begin()
        return self._open

    def _go_back(self) -> None:
        """Roll back an event that may be half applied: the epoch is undone, and earlier events are applied again."""
        assert self._open is not None
        outer = self._moving  # has the events taken so far as well, if events are being applied again
        self._moving = outer or _InFlightEvents(self._state.store.epoch, self._taken)
        taken, self._taken = self._taken, []
        self._open.undo()
        self._open = None
        for earlier in taken:
            self._handle(earlier)
        self._moving = outer

    def _apply_again(self, events: list[RowEvent]) -> list[DataError]:
        """Apply events that are in no committed epoch once more; returns the errors of those that are refused now."""
        refused = []
        self._moving = _InFlightEvents(self._state.store.epoch, events)
        for event in events:
            try:
                self._handle(event)
            except DataError as error:
                refused.append(error)
        self._moving = None
        return refused

    def _close(self, open_: OpenEpoch, taken: list[RowEvent]) -> WaitUntilDurable:
        try:
            return open_.close()
        except DataError:
            if len(taken) == 1:
                raise
        return self._close_each(taken)

    def _close_each(self, taken: list[RowEvent]) -> WaitUntilDurable:
        """Find the event that leads to an invalid row of a view: each event up to it is committed as its own epoch.

        Later events are applied without it. Some may be refused for its lack; all others stay.
        """
        durable: WaitUntilDurable = _nothing
        self._moving = _InFlightEvents(self._state.store.epoch, taken, each=True)
        for place, event in enumerate(taken):
            try:
                self._handle(event)
                assert self._open is not None
                open_, self._open, self._taken = self._open, None, []
                durable = open_.close()
            except DataError as error:
                raise _refused_together([error, *self._apply_again(taken[place + 1 :])]) from error
        return durable

    # -- events of tables in columns --------------------------------------------------------------------------------

    def _replay_rows(self, turns: EventOrder, tables: Mapping[str, pa.Table]) -> None:
        """Apply events of tables as one epoch if their order does not matter, else in two halves, and few one by one.

        If one of them is refused, so is every part that has it: those before it stay, and those after it are not
        applied.
        """
        fields_of = self._state.fields_of
        changes = {name: ChangeSet.of_arrow(rows, fields_of(name)) for name, rows in tables.items()}
        if len(turns) <= FEW_EVENTS:
            self._take_each(turns, changes)
        elif not self._apply_together({name: change for name, change in changes.items() if len(change)}):
            for some, rows in event_slices(turns, tables, (len(turns) + 1) // 2):
                self._replay_rows(some, rows)

    def _take_each(self, turns: EventOrder, changes: Mapping[str, ChangeSet]) -> None:
        rows = [zip(repeat(name), change.pairs(), strict=False) for name, change in changes.items()]
        for turn in turns.tolist():
            name, (row, weight) = next(rows[turn])
            self.take((name, row, weight))

    def _apply_together(self, changes: Mapping[str, ChangeSet]) -> bool:
        """Commit events as one epoch; false, with nothing changed, if that may not be what they are one by one."""
        state = self._state
        tables = [state.catalog.tables[name] for name in changes]
        constraints = state.catalog.constraints
        if constraints.keys_of(changes) or constraints.uniques_of(changes):
            return False
        if any(late_table(t) is not None or not t.kept for t in tables):
            return False
        put_back = {table: rows_put_back(table, changes[table.name]) for table in tables}
        if None in put_back.values():
            return False
        self.flush()
        if not all(self._has_rows(table, rows) for table, rows in put_back.items() if rows):
            return False
        try:
            self._apply(changes)
        except DataError:
            return False
        return True

    def _has_rows(self, table: Table, rows: Sequence[Row]) -> bool:
        places = table.key_positions
        keyed = {tuple([row[place] for place in places]): [row] for row in rows}
        return self._state.placement.lookup.find(table.name, places, keyed) == keyed

    # -- events in a buffer ---------------------------------------------------------------------------------------

    def _machine_code(self, table: Table) -> list[MachineCode]:
        """The compiled stages that read ``table``; none if one is not compiled, or rows must be stored or checked."""
        if (
            table.kept
            or late_table(table) is not None
            or table.checks_rows
            or self._state.catalog.is_followed(table.name)
            or self._state.catalog.keeps_rows_of(table.name)
            or self._is_guarded(table.name)
        ):
            return []
        found = []
        for _, placed, stage in self._state.pipeline.readers(table.name):
            compiled = placed.runtime.machine_code(stage)
            if compiled is None:
                return []
            found.append(compiled)
        return found

    def _entry(self, table: Table, stages: list[MachineCode]) -> EventEntry:
        from tidemill.runtimes.native.llvm.stage.event_entry import EventBuffer, EventEntry

        if self._tape is None:
            self._tape = EventBuffer()
            self._tape.close_until_epoch()
        known = [entry for entry in self._tape.entries if entry.table is table and list(entry.stages) == stages]
        return known[0] if known else EventEntry(table, stages, self._tape, partial(self._begin_tape, table, stages))

    def _begin_tape(self, table: Table, stages: list[MachineCode]) -> None:
        """Commit the open epoch and begin another, to make room for an event of ``table``.

        A feed whose stages are gone must not run again, neither the caller nor any other.
        """
        assert self._tape is not None
        with self.settled():
            for entry in self._tape.entries:
                if not self._is_current(entry.table, list(entry.stages)):
                    entry.retire(partial(_refuse_outdated, entry.table.name))
            if not self._is_current(table, stages):
                _refuse_outdated(table.name)
            self._open = OpenEpoch(self._state, self._epochs)
            for entry in self._tape.entries:  # any of them may take events until the epoch is closed
                for stage in entry.stages:
                    stage.prepare()
            self._tape.open()
            self._transaction.gather()

    def _is_current(self, table: Table, stages: list[MachineCode]) -> bool:
        return self._state.catalog.tables.get(table.name) is table and self._machine_code(table) == stages

    # -- events in columns --------------------------------------------------------------------------------------

    def _replay_columns(
        self, changes: Mapping[str, ChangeSet], turns: EventOrder, stages: Iterable[MachineCode]
    ) -> None:
        """Pass the events to machine code; in slices if views publish every row, to bound the rows that wait."""
        own = list({stage.stage.name: stage for stage in stages}.values())
        tables = {name: change.arrow() for name, change in changes.items()}
        publishing = any(stage.stage.serve is Serve.SUBSCRIBE for stage in own)
        for some, rows in event_slices(turns, tables, REPLAY_SLICE if publishing else len(turns)):
            self._run_columns(some, rows, own)
            if sum(stage.pending_rows for stage in own) >= MAX_PENDING_ROWS:
                self.flush()

    def _run_columns(self, turns: EventOrder, tables: Mapping[str, pa.Table], stages: Iterable[MachineCode]) -> None:
        open_ = self._opened()
        self._fed.update(tables)
        try:
            for stage in stages:
                stage.run(turns, tables)
        except DataError as error:
            self._fed = set()
            open_.undo()
            self._open = None
            raise _all_undone(error) from error
        self._transaction.gather()


@dataclass(frozen=True, slots=True)
class _InFlightEvents:
    """Events being committed or applied again, which an exception must not lose.

    ``epoch`` precedes them; they share one epoch, or ``each`` has its own. With ``fed`` some went to machine code.
    """

    epoch: int
    events: list[RowEvent]
    each: bool = False
    fed: bool = False

    def left(self, epoch: int) -> list[RowEvent]:
        """The events that are in no epoch, if the last one is ``epoch``."""
        if self.each:
            return self.events[epoch - self.epoch :]
        return [] if epoch > self.epoch else list(self.events)

    def lost(self, epoch: int) -> bool:
        """True if some of them cannot be applied again."""
        return self.fed and epoch == self.epoch


def _nothing() -> None:
    """Wait for nothing: no epoch was committed."""


def _close_fed(open_: OpenEpoch, relations: Iterable[str]) -> WaitUntilDurable:
    try:
        return open_.close_fed(relations)
    except DataError as error:
        raise _all_undone(error) from error


def _refused_together(errors: list[DataError]) -> DataError:
    """The error of the first of some refused events, which mentions the others; at most three of them in full."""
    first, *others = errors
    if others:
        told = "; ".join(error.what if error.where is None else f"{error.what}, {error.where}" for error in others[:3])
        more = ", and so on" if len(others) > 3 else ""
        count = f"{len(others)} later event{'s are' if len(others) > 1 else ' is'} refused as well: {told}{more}."
        first.detail = f"{first.detail or ''} {count}".strip()
    return first


def _all_undone(error: DataError) -> DataError:
    """The error of an epoch whose events are not kept one by one."""
    error.detail = f"{error.detail or ''} All events since the last look are undone.".strip()
    return error


def _refuse_outdated(table: str) -> None:
    raise Unsupported(
        f'this feed of "{table}" is out of date',
        detail="Views have been made, dropped or moved since it was asked for.",
        hint=f'Ask for a new one: wh.feed("{table}").',
    )
