"""The methods of a warehouse that change rows, and run statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.compiler.frontends.sql.registered_functions import read_type
from tidemill.engine.access.allowed_changes import require_changes
from tidemill.engine.boundary import public_class
from tidemill.engine.calls.in_session import in_session
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.concurrent_changes.apply_each import SentChanges
from tidemill.engine.fault_reports import fault_report
from tidemill.engine.intake_counts import IntakeCounts, IntakeEpoch
from tidemill.engine.partitions.late_replay import late_change_count
from tidemill.engine.results import Result
from tidemill.engine.statements.dml.upsert import deleted_by_key, overwriting, require_key, upserted_changes
from tidemill.engine.statements.prepared_statements.describe import TextDescription, describe
from tidemill.engine.statements.prepared_statements.parameters import Parameters, marker_named, parameters_of
from tidemill.engine.statements.prepared_statements.prepared import PreparedStatements
from tidemill.engine.statements.script import run_script
from tidemill.engine.streams.file_epochs import apply_with_rejects
from tidemill.engine.streams.given_rows import GivenRows, listed_changes, require_alone
from tidemill.engine.streams.rejected_rows import rejects_of
from tidemill.model.errors import (
    BadValue,
    DataError,
    InternalError,
    InvalidArgument,
    StorageError,
    TidemillError,
    UnknownName,
    Unsupported,
)
from tidemill.model.schema import Table
from tidemill.runtimes.native.python.check_conditions import row_checker
from tidemill.sources.ingest.csv_options import CsvOptions
from tidemill.sources.ingest.files import read_files
from tidemill.sources.ingest.frames import changes_of, is_frame

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import DataFrame

__all__ = ["KeyedChanges", "PreparedText", "RowChanges", "Transaction", "key_table"]

CHANGES, UPSERT, DELETE = "changes", "upsert", "delete"
MODES = (CHANGES, UPSERT)
"""Meanings of the rows that ``apply`` is given."""

LOAD_MODES = ("append", UPSERT, "overwrite")
"""Modes of ``load``: rows are added, or take the place of those with their key, or of all."""


class KeyedChanges(NamedTuple):
    """Changes for ``apply_each``, in the ``mode`` of ``apply``; with ``delete`` they are primary keys.

    Changes with a ``key`` are made once: the same key again, also after a restart, gives the epoch of the first time,
    as long as it is among the last 16,384 keys. ``content`` tells what was sent with it, such as a digest: with another
    one the key is refused. They are made with the rights of ``session``, if there is one. With the ``on_error`` of
    ``apply`` bad rows are set aside.
    """

    changes: Mapping[str, Any]
    key: str = ""
    content: str = ""
    mode: str = CHANGES
    positions: Mapping[str, str] = MappingProxyType({})
    session: RowChanges | None = None
    on_error: str = "refuse"


@public_class
class RowChanges:
    """The part of ``Warehouse`` that runs statements and changes rows."""

    SHOWN_AS = "Warehouse"
    _engine: Engine
    _session: SessionState | None = None

    def __init__(self) -> None:
        self._prepared = PreparedStatements()

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        name: str = "sql",
        each: Callable[[Result], None] | None = None,
        **parameters: Any,
    ) -> Result:
        """Run a script of statements; returns the rows of the last one. Errors call the text ``name``.

        ``parameters`` are the values of ``:name`` in the text, and so is a dictionary ``args``; a list has those of
        ``?``. ``each`` is called with the result of every statement; statements before an error stay executed, unless
        they are part of a transaction (BEGIN), which leaves nothing.
        """
        given = parameters_of(args, parameters)
        return run_script(self._engine, self._prepared, text, given, name=name, each=each)

    def prepare(self, text: str, *, types: Mapping[str, str] | None = None) -> PreparedText:
        """A text that is run again and again with other parameters: it is read and translated once.

        ``types`` declare parameters by name, with SQL names of types; others have the type of each value.
        """
        return PreparedText(self._engine, self._prepared, text, types, self._session)

    @property
    def in_transaction(self) -> bool:
        """True between BEGIN and COMMIT or ROLLBACK of this session, in the default session of this thread."""
        return self._engine.transactions.mine() is not None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Make all changes of the block one epoch, or none after an exception: ``with wh.transaction(): ...``.

        Changes by ``sql``, ``apply``, ``upsert``, ``delete`` and ``load`` of this thread wait until its end, and this
        thread reads them meanwhile. ``Conflict`` is raised if what it has read was changed by others.
        """
        self._engine.state.require_writable()
        self._engine.flush()
        pending = self._engine.transactions.begin()
        transaction = Transaction()
        try:
            yield transaction
        except BaseException:
            if self._engine.transactions.mine() is pending:
                self._engine.transactions.end()
            raise
        if self._engine.transactions.mine() is not pending:
            raise InvalidArgument("the transaction was ended by a statement", hint="Leave COMMIT and ROLLBACK out.")
        committed = self._engine.commit_transaction()
        transaction.epoch = self._engine.committed_epoch if committed is None else committed

    def apply(
        self,
        changes: Mapping[str, Any],
        *,
        positions: Mapping[str, str] | None = None,
        mode: str = CHANGES,
        on_error: str = "refuse",
    ) -> int:
        """Commit one epoch: for each table pairs ``(weight, row)``, or an Arrow, pandas or Spark frame.

        Atomic over all tables and views. ``positions`` records the positions of sources after it. With
        ``mode="upsert"`` a row takes the place of the one with its primary key, and one of weight -1 deletes it. With
        ``on_error="quarantine"`` rows that their table cannot take go to the table ``<table>_errors`` in the same
        epoch, which then has ``counts``; without, one bad row refuses everything. Returns the epoch.
        """
        if on_error != "refuse":
            return self._apply_good_rows(changes, positions, mode, on_error)
        if mode != CHANGES:
            return self._upsert(changes, positions, mode)
        engine = self._engine
        if engine.transactions.by_owner or engine.calls.by_thread:
            return engine.change(self._take(changes), positions)
        return engine.apply(self._take(changes), positions)

    def _apply_good_rows(
        self, changes: Mapping[str, Any], positions: Mapping[str, str] | None, mode: str, on_error: str
    ) -> IntakeEpoch:
        """Commit the rows that their tables can take, and set the others aside."""
        require_alone(self._engine)
        engine, changes = self._engine, listed_changes(changes)
        rows = GivenRows(engine, "apply", {self._table(name): data for name, data in changes.items()}, mode, on_error)
        try:
            taken = self._take(changes)  # where all rows are good they need not be looked at one by one
            epoch = engine.change(taken, positions) if mode == CHANGES else self._upsert(taken, positions, mode)
            return IntakeEpoch(epoch, IntakeCounts(sum(change.rows for change in taken.values())))
        except (DataError, UnknownName):
            rows.prepare()
        with engine.settled():
            epoch = engine.change(rows.changes(), positions)
        return IntakeEpoch(epoch, rows.counts)

    def apply_each(
        self, sent: Sequence[Mapping[str, Any] | KeyedChanges], *, together: bool = False
    ) -> list[int | TidemillError]:
        """Commit several epochs that share one sync: of each its number, or the error by which it was refused.

        Each item is what ``apply`` takes, or ``KeyedChanges``. They are independent: one that is refused changes
        nothing, and the others go on. With ``together`` weighted rows of several items may be one epoch, which is
        cheaper by far where each has few rows; where that is refused, each item is tried by itself.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     _ = wh.sql("CREATE TABLE people (id INT PRIMARY KEY)")
        ...     ann, again = ({"people": [(+1, (1,))]} for _ in range(2))
        ...     first, second = wh.apply_each([ann, again])
        ...     first, type(second).__name__
        (1, 'DuplicateKey')
        """
        found: list[GivenRows | TidemillError | None] = []
        ready: list[SentChanges] = []
        for given in sent:
            one = given if isinstance(given, KeyedChanges) else KeyedChanges(given)
            try:
                rows = self._engine.run_in(_state_of(one), partial(self._given_rows, one))
                ready.append(self._engine.run_in(_state_of(one), partial(self._sent, one, together, rows)))
                found.append(rows)
            except TidemillError as refused:
                found.append(refused)
        results = iter(self._engine.apply_each(ready))
        return [one if isinstance(one, TidemillError) else _result_of(next(results), one) for one in found]

    def _given_rows(self, one: KeyedChanges) -> GivenRows | None:
        """The rows of changes whose bad rows are set aside; None of others."""
        if one.on_error == "refuse":
            return None
        given = {self._table(name): data for name, data in one.changes.items()}
        rows = GivenRows(self._engine, "post", given, one.mode, one.on_error)
        rows.prepare()
        return rows

    def _sent(self, one: KeyedChanges, together: bool, rows: GivenRows | None) -> SentChanges:
        engine = self._engine
        if one.positions:
            require_changes(engine.rights, {}, one.positions)
        if rows is not None:
            return SentChanges(rows.changes, one.positions, one.key, one.content, session=_state_of(one))
        if one.mode == DELETE:
            return self._sent_keys(one)
        taken = self._take(one.changes)
        if one.mode == CHANGES:
            share = together and not one.positions and one.session is None
            return SentChanges(lambda: taken, one.positions, one.key, one.content, share, _state_of(one))
        if one.mode != UPSERT:
            raise InvalidArgument(f'there is no mode "{one.mode}"', hint=f"Modes: {', '.join(MODES)}.")
        engine.committed.require_own_rows(taken)

        def made() -> Mapping[str, ChangeSet]:
            return {name: upserted_changes(engine, engine.catalog.table(name), each) for name, each in taken.items()}

        return SentChanges(made, one.positions, one.key, one.content, session=_state_of(one))

    def _sent_keys(self, one: KeyedChanges) -> SentChanges:
        """The rows with some primary keys, to be deleted."""
        engine, found = self._engine, list[tuple[Table, list[Row]]]()
        for name, keys in one.changes.items():
            table = self._table(name)
            found.append((table, [row for row, _ in self._keys(table, keys).pairs()]))

        def made() -> Mapping[str, ChangeSet]:
            return {table.name: deleted_by_key(engine, table, rows) for table, rows in found}

        return SentChanges(made, one.positions, one.key, one.content, session=_state_of(one))

    def upsert(self, table: str, rows: Any) -> int:
        """Insert rows, each in the place of the one with its primary key; returns the epoch.

        ``rows`` are dictionaries or tuples, or an Arrow, pandas, polars or Spark frame. Rows that are there already
        change nothing. Columns that are left out become NULL.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     _ = wh.sql("CREATE TABLE people (id INT PRIMARY KEY, name STRING)")
        ...     _ = wh.upsert("people", [(1, "ann"), (2, "bob")])
        ...     _ = wh.upsert("people", [{"id": 2, "name": "eve"}])
        ...     sorted(wh.table("people").rows())
        [(1, 'ann'), (2, 'eve')]
        """
        return self._upsert({table: _weighted(rows, self._table(table))}, None, UPSERT)

    def delete(self, table: str, keys: Any) -> int:
        """Delete the rows with these primary keys, as far as they are there; returns the epoch.

        ``keys`` are values, or tuples or dictionaries for a key of several columns, or a frame of the key's columns.
        """
        engine = self._engine
        target = self._table(table)
        found = self._keys(target, keys)
        with engine.settled():
            change = deleted_by_key(engine, target, (row for row, _ in found.pairs()))
            return engine.change({target.name: change})

    def _keys(self, target: Table, keys: Any) -> ChangeSet:
        """Primary keys of a table, as rows of a table that has nothing else."""
        require_key(target, DELETE)
        key = key_table(target)
        single = len(key.fields) == 1
        return self._taken(_weighted(keys, key, lambda one: (one,) if single and _is_value(one) else one), key)

    def load(
        self,
        table: str,
        *paths: str | Path,
        format: str | None = None,
        reject: str | Path | None = None,
        on_error: str = "refuse",
        progress: Callable[[int, int], None] | None = None,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
    ) -> IntakeEpoch:
        """Load CSV, JSON-lines or Parquet files as one epoch; returns its number, with ``counts``.

        A folder stands for all files below it, and ``*`` for names; folders named ``column=value`` give that column.
        Files may be compressed. With ``reject`` bad rows go to that file with their line and reason, with
        ``on_error="quarantine"`` to the table ``<table>_errors``; without, one bad row refuses everything. ``progress``
        is called with the bytes read so far and in total. With ``mode="upsert"`` rows take the place of those with
        their primary key, with ``"overwrite"`` of all. ``options`` are those of CSV:
        ``sep``, ``header``, ``quote``, ``nullvalue``, ``dateformat``, ``timestampformat``.
        """
        target, csv = self._engine.committed.table(table), CsvOptions.of(options or {})
        rejects = rejects_of(on_error, mode)
        if rejects is not None:
            require_alone(self._engine)
        set_aside = reject is not None or rejects is not None
        keys = self._engine.reader.keys(target) if set_aside and mode == "append" else ()
        judge = row_checker(self._engine.committed.constraints.conditions_of(target.name))
        read = read_files(
            target,
            paths,
            format=format,
            reject=reject,
            rejects=rejects,
            taken=keys,
            judge=judge,
            progress=progress,
            csv=csv,
        )
        if rejects:
            epoch = apply_with_rejects(self._engine, target, read.change, rejects)
        else:
            epoch = self._load(mode, target, read.change)
        late, skipped = late_change_count(self._engine.store, target, epoch), tuple(path.name for path in read.skipped)
        return IntakeEpoch(epoch, IntakeCounts(len(read.change), read.files, late, read.rejected, skipped=skipped))

    def _table(self, name: str) -> Table:
        return self._engine.committed.table(self._engine.rights.require(name))

    def _upsert(self, changes: Mapping[str, Any], positions: Mapping[str, str] | None, mode: str) -> int:
        if mode != UPSERT:
            raise InvalidArgument(f'there is no mode "{mode}"', hint=f"Modes: {', '.join(MODES)}.")
        engine, taken = self._engine, self._take(changes)
        engine.committed.require_own_rows(taken)
        with engine.settled():
            return engine.change(
                {name: upserted_changes(engine, engine.catalog.table(name), one) for name, one in taken.items()},
                positions,
            )

    def _load(self, mode: str, table: Table, change: ChangeSet) -> int:
        """Change a table by rows that were loaded, in one of ``LOAD_MODES``."""
        engine = self._engine
        if mode not in LOAD_MODES:
            raise InvalidArgument(f'there is no mode "{mode}"', hint=f"Modes: {', '.join(LOAD_MODES)}.")
        engine.committed.require_own_rows([table.name])
        if mode == "append":
            return engine.change({table.name: change})
        with engine.settled():
            if mode == UPSERT:
                return engine.change({table.name: upserted_changes(engine, table, change)})
            return engine.change({table.name: ChangeSet.of(overwriting(engine, table, change.pairs()), table.fields)})

    def _take(self, changes: Mapping[str, Any]) -> dict[str, ChangeSet]:
        catalog, taken = self._engine.committed, dict[str, ChangeSet]()
        for name, data in changes.items():
            table = self._table(name) if self._engine.calls.by_thread else catalog.table(name)
            is_spark = type(data) is not list and type(data).__module__.startswith("pyspark.")
            taken[table.name] = self._take_frame(table, data) if is_spark else changes_of(data, table)
        return taken

    def _taken(self, data: Any, table: Table) -> ChangeSet:
        is_spark = type(data).__module__.startswith("pyspark.")
        return self._take_frame(table, data) if is_spark else changes_of(data, table)

    def _take_frame(self, table: Table, frame: DataFrame) -> ChangeSet:
        """A Spark frame as a change: a small one is collected, a large one is written to the store's files by Spark."""
        from tidemill.runtimes.spark.execution.ingest import collect_small, stage_large

        number = self._engine.committed_epoch + 1
        rows = collect_small(frame, table, number)
        if rows is not None:
            return changes_of(rows, table)
        if self._engine.transactions.mine() is not None:
            raise Unsupported("a large Spark frame cannot be part of a transaction", hint="Apply it by itself.")
        self._engine.flush()
        return stage_large(frame, table, self._engine.store, self._engine.committed_epoch + 1)


@public_class
@in_session
class PreparedText:
    """A text with parameters, ready to be run: ``find = wh.prepare("... WHERE id = :id")``, ``find.run(id=7)``."""

    FOR_EVERYBODY = frozenset({"run", "describe", "find"})
    FOR_OWNERS = frozenset[str]()

    def __init__(
        self,
        engine: Engine,
        prepared: PreparedStatements,
        text: str,
        types: Mapping[str, str] | None = None,
        session: SessionState | None = None,
    ) -> None:
        self._session = session
        self._engine = engine
        self._prepared = prepared
        self._types = {marker_named(name): read_type(of) for name, of in (types or {}).items()}
        self.text = text

    def run(self, args: Mapping[str, Any] | Sequence[Any] | None = None, **parameters: Any) -> Result:
        """Run it with values of its parameters, by name or in a list; returns the rows of the last statement."""
        given = parameters_of(args, parameters, self._types)
        return run_script(self._engine, self._prepared, self.text, given, at_once=True)

    def find(self, args: Mapping[str, Any] | Sequence[Any] | None = None, **parameters: Any) -> Result | None:
        """The rows of one key, if they are in memory and can be read at once; None where only ``run`` can tell.

        This never waits, so an event loop may call it: for a SELECT of columns of one table or view by all columns
        of its key, once ``run`` has answered it before.
        """
        return self._found(parameters_of(args, parameters, self._types))

    def _found(self, given: Parameters) -> Result | None:
        engine, session = self._engine, self._session
        if session is not None and session.closed:
            return None
        definitions = engine.session.definitions if session is None else session.definitions
        point = self._prepared.find_point(engine, self.text, given, definitions)
        return None if point is None else point.now(engine, given)

    def describe(self) -> TextDescription:
        """The types of its parameters, as declared or as their use tells them, and the columns; nothing is run.

        A parameter whose use does not tell its type is a STRING.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     _ = wh.sql("CREATE TABLE people (id INT PRIMARY KEY, name STRING)")
        ...     found = wh.prepare("SELECT name FROM people WHERE id = :id").describe()
        ...     print({name: str(of) for name, of in found.parameters.items()}, *found.fields)
        {'id': 'INT'} name: STRING
        """
        return describe(self._engine, self.text, self._types)


class Transaction:
    """A transaction of a ``with`` block; ``epoch`` is the one that it was committed as, once the block has ended."""

    epoch: int | None = None


def key_table(table: Table) -> Table:
    """A table with nothing but the primary key of another."""
    return Table(table.name, tuple(table.fields[place] for place in table.key_positions))


def _weighted(rows: Any, table: Table, made: Callable[[Any], Any] = lambda row: row) -> Any:
    """Rows as changes of weight 1, each as it is ``made``; a frame is one already."""
    if is_frame(rows):
        return rows
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise BadValue(
            f"rows cannot come from a {type(rows).__name__}",
            where=table.name,
            hint="Give a list, or a frame of Arrow, pandas, polars, DuckDB or Spark.",
        )
    pairs = ((1, made(row)) for row in rows)
    return list(pairs) if isinstance(rows, list) else pairs


def _state_of(one: KeyedChanges) -> SessionState | None:
    return None if one.session is None else one.session._session


def _result_of(result: int | Exception, rows: GivenRows | None) -> int | TidemillError:
    """The result of an epoch for users: any other error is a fault of ours."""
    if isinstance(result, int) and rows is not None and rows.is_taken:
        return IntakeEpoch(result, rows.counts)
    if isinstance(result, int | TidemillError):
        return result
    if isinstance(result, OSError):
        return StorageError("the epoch cannot be stored", where=str(result.filename or ""), detail=result.strerror)
    fault = InternalError("an epoch failed because of a fault in Tidemill")
    fault.reported(fault_report(result, "Warehouse.apply_each", {}, None))
    return fault


def _is_value(key: Any) -> bool:
    return not isinstance(key, tuple | list | Mapping)
