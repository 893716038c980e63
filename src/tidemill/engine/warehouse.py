"""The warehouse: what users hold. Thin, over the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidemill.algebra.user_functions import Accumulator
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script.statements import ReplayLate
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.boundary import public_class, public_function
from tidemill.engine.catalog.user_functions import (
    register_aggregate,
    register_function,
    state_factory,
)
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.event_order import EventOrder, parse_event_order
from tidemill.engine.epochs.memory_budget import parse_size
from tidemill.engine.epochs.placement import Placement, check_runtime_name, reads_files_only
from tidemill.engine.epochs.staleness_marks import is_mark
from tidemill.engine.handles import TableHandle, ViewHandle, WarehouseSnapshot
from tidemill.engine.intake_counts import IntakeCounts, IntakeEpoch
from tidemill.engine.maintenance.compaction_schedule import MEMORY_EPOCHS
from tidemill.engine.partitions.late_replay import LateReplay, late_change_count, replay_late_changes
from tidemill.engine.partitions.lateness import is_head
from tidemill.engine.results import EpochCosts, Result, Verification
from tidemill.engine.statements.execute import execute
from tidemill.engine.subscriptions.row_filter import Where
from tidemill.engine.subscriptions.subscription import DEFAULT_BUFFER_ROWS, Subscription
from tidemill.engine.workers import Trouble
from tidemill.model.errors import SetupError, StorageError
from tidemill.model.paths import local_path
from tidemill.model.schema import Table
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN
from tidemill.runtimes.native.python.check_conditions import row_checker
from tidemill.sources.ingest.files import read_files
from tidemill.sources.ingest.frames import changes_of
from tidemill.sources.secrets import Secrets
from tidemill.storage.compaction.vacuum import Inspection
from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import DataFrame, SparkSession, StreamingQuery

MEMORY = ":memory:"


@public_class
class Warehouse:
    """Tables, and views over them that follow every change.

    >>> with open(":memory:") as wh:
    ...     _ = wh.sql("CREATE TABLE t (a INT)")
    ...     _ = wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    ...     _ = wh.apply({"t": [(+1, (7,)), (+1, (7,))]})
    ...     wh.view("v").rows()
    [(7, 2)]
    """

    def __init__(self, engine: Engine, folder: Path, temporary: TemporaryFolder | None) -> None:
        self._engine = engine
        self._folder = folder
        self._temporary = temporary

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 before the first. Events that wait are in none yet: see ``flush``."""
        return self._engine.committed_epoch

    @property
    def positions(self) -> Mapping[str, str]:
        """Where each source stood at the last epoch, as ``apply`` was told."""
        positions = self._engine.store.positions
        return {name: at for name, at in positions.items() if not (is_mark(name) or is_head(name))}

    def sql(self, text: str, *, name: str = "sql", each: Callable[[Result], None] | None = None) -> Result:
        """Run a script of statements; returns the rows of the last one. ``name`` is what errors call the text.

        ``each`` is told what every statement gave, once it is done: what came before an error was done.
        """
        result = Result()
        for statement in parse(text, name=name):
            result = execute(self._engine, statement)
            if each is not None:
                each(result)
        return result

    def apply(self, changes: Mapping[str, Any], *, positions: Mapping[str, str] | None = None) -> int:
        """Commit one epoch: for each table pairs ``(weight, row)``, or an Arrow, pandas or Spark frame.

        Atomic over all tables and views. ``positions`` records where sources stand after it. Returns the epoch.
        """
        return self._engine.apply({name.lower(): self._take(name, data) for name, data in changes.items()}, positions)

    def _take(self, name: str, data: Any) -> ChangeSet:
        table = self._engine.committed.table(name)
        if type(data).__module__.startswith("pyspark."):
            return self._take_frame(table, data)
        return changes_of(data, table)

    def _take_frame(self, table: Table, frame: DataFrame) -> ChangeSet:
        """A Spark frame: a small one comes here, a large one goes straight to the store's files."""
        from tidemill.runtimes.spark.execution.ingest import collect_small, stage_large

        rows = collect_small(frame)
        if rows is not None:
            return changes_of(rows, table)
        return stage_large(frame, table, self._engine.store, self.flush() + 1)

    def register_function(
        self, name: str, function: Callable[..., Any], *, arguments: Sequence[str], returns: str, strict: bool = False
    ) -> None:
        """Let SQL call a Python function of the values of a row: deterministic, with types as SQL spells them.

        It is given what ``rows()`` would show, NULL as None; with ``strict`` NULL gives NULL and it is not called. An
        exception refuses the epoch that led to it. Views that call it go on once it is registered again after ``open``.

        >>> with open(":memory:") as wh:
        ...     wh.register_function("shout", lambda text: text.upper() + "!", arguments=["STRING"], returns="STRING")
        ...     wh.sql("SELECT shout('hello') AS text")
        [('HELLO!',)]
        """
        register_function(
            self._engine.registry, self._engine.catalog.functions_in_use(), name, function, arguments, returns, strict
        )

    def register_aggregate(
        self,
        name: str,
        *,
        zero: Any,
        add: Callable[..., Any],
        result: Callable[[Any], Any],
        arguments: Sequence[str],
        returns: str,
        remove: Callable[..., Any] | None = None,
        strict: bool = False,
    ) -> None:
        """Let SQL call an aggregate in Python: ``add(state, *arguments)`` from ``zero`` on, then ``result(state)``.

        Rows come in ascending order, and groups that a change touches are computed again. With ``remove``, which must
        take back exactly what ``add`` did, a change costs the rows that come and go instead. ``zero`` is a state, or a
        function that makes one. With ``strict`` rows with a NULL argument are left out.
        """
        steps = Accumulator(state_factory(zero), add, result, remove)
        register_aggregate(
            self._engine.registry, self._engine.catalog.functions_in_use(), name, steps, arguments, returns, strict
        )

    def feed(self, table: str) -> Callable[..., None]:
        """The entry for events of a table or stream, one at a time: ``feed(+1, *row)``.

        Every view is fresh after each event. Events gather in one epoch until somebody looks (see
        ``engine.epochs.events``). Where everything that reads a stream can be compiled, the entry is machine code.
        """
        self._engine.committed.require_not_object_tables([table.lower()])
        return self._engine.events.feed(self._engine.committed.table(table))

    def replay(self, changes: Mapping[str, Any], order: Sequence[str] | EventOrder) -> None:
        """Take in many events in their order, every view fresh after each; like those of ``feed`` they share an epoch.

        ``changes`` are as for ``apply``. ``order`` tells for each event whose next row it is: the name of its table, or
        as an array of whole numbers its place among ``changes``.
        """
        taken = {name.lower(): self._take(name, data) for name, data in changes.items()}
        self._engine.committed.require_not_object_tables(taken)
        self._engine.events.replay(taken, parse_event_order(order, taken))

    def replay_late(self, table: str, where: str | None = None) -> LateReplay:
        """Take late changes of a table or stream in after all, as one epoch: those of which ``where``, SQL, is true.

        Changes of partitions that are forgotten stay in the table of late changes; the result says how many.
        """
        condition = "" if where is None else f" WHERE {where}"
        (statement,) = parse(f"REPLAY LATE `{table}`{condition}", name="where")
        assert isinstance(statement, ReplayLate)
        return replay_late_changes(self._engine, statement)

    def flush(self) -> int:
        """Commit the events that were fed and are in no epoch yet; returns the last epoch."""
        self._engine.flush()
        return self.epoch

    def load(
        self,
        table: str,
        *paths: str | Path,
        format: str | None = None,
        reject: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> IntakeEpoch:
        """Take in CSV, JSON-lines or Parquet files as one epoch; returns its number, whose ``counts`` say how much.

        A folder stands for all files below it; folders named ``column=value`` give that column. With ``reject`` bad
        rows go to that file with their line and reason; without, one bad row refuses everything. ``progress`` is told
        the bytes read so far and in all.
        """
        target = self._engine.committed.table(table)
        keys = self._engine.reader.keys(target) if reject is not None else ()
        judge = row_checker(self._engine.committed.constraints.conditions_of(target.name))
        read = read_files(target, paths, format=format, reject=reject, taken=keys, judge=judge, progress=progress)
        epoch = self._engine.apply({target.name: read.change})
        late, skipped = late_change_count(self._engine.store, target, epoch), tuple(path.name for path in read.skipped)
        return IntakeEpoch(epoch, IntakeCounts(len(read.change), read.files, late, read.rejected, skipped=skipped))

    def stream(
        self,
        table: str,
        frame: DataFrame,
        *,
        name: str | None = None,
        checkpoint: str | Path | None = None,
        **trigger: Any,
    ) -> StreamingQuery:
        """Let every batch of a streaming frame be one epoch of ``table``, exactly once; returns the running query.

        ``name`` tells several streams into one table apart. ``checkpoint`` is Spark's folder for the query, by default
        one within the warehouse. ``trigger`` is what ``DataStreamWriter.trigger`` takes, such as ``availableNow=True``.
        """
        from tidemill.runtimes.spark.execution.ingest import StreamBatches, start_stream

        target = self._engine.committed.table(table)

        def take(batch: DataFrame, source: str, position: str) -> None:
            self.apply({target.name: batch}, positions={source: position})

        name = name or target.name
        if checkpoint is None:
            checkpoint = self._folder / "checkpoints" / hashlib.sha256(name.encode()).hexdigest()[:16]
        batches = StreamBatches(name, lambda source: self._engine.store.positions.get(source), take)
        return start_stream(frame, batches, str(checkpoint), trigger)

    @property
    def spark(self) -> SparkSession:
        """The Spark session of this warehouse, started if need be."""
        return self._engine.placement.session

    def costs(self) -> EpochCosts:
        """Jobs, bytes read and bytes written of the last epoch, over all runtimes."""
        return self._engine.costs()

    def sync(self, name: str | None = None, *, timeout: float | None = None) -> IntakeEpoch:
        """Take in what waits outside: files of a feed, and what the sources of a view have committed; by default all.

        Ends when all that was there is shown, however much comes meanwhile, or for views over sources after ``timeout``
        seconds. Returns the epoch, whose ``counts`` say how much came.
        """
        engine, came = self._engine, IntakeCounts()
        is_feed = name is not None and name.lower() in engine.catalog.feeds
        if is_feed or name is None:
            came += engine.feeds.sync(name)
        if not is_feed:
            before = engine.source_views.tally.total
            engine.source_views.sync(name, timeout)
            came += engine.source_views.tally.total - before
        return IntakeEpoch(self.flush(), came)

    @property
    def taken(self) -> IntakeCounts:
        """How much feeds and sources have brought since the warehouse was opened."""
        return self._engine.feeds.tally.total + self._engine.source_views.tally.total

    def schedule(self, limit: int | None = None) -> list[str]:
        """Refresh the views with ``refresh = 'scheduled'``, the most urgent first, until none is behind.

        At most ``limit`` of them share an epoch. Returns their names in the order in which they were refreshed.
        """
        self._engine.state.require_writable()
        return self._engine.scheduler.run(limit)

    def follow(self, limit: int | None = None) -> None:
        """Let everything go on by itself from now on: sources and feeds, also manual ones, and scheduled views.

        Threads do it until the warehouse is closed. What keeps them from that, ``troubles`` tells. ``limit`` is that of
        ``schedule``.
        """
        self._engine.source_views.follow_all()
        self._engine.feeds.follow_all()
        self._engine.scheduler.follow(limit)

    def troubles(self) -> dict[str, Trouble]:
        """Which views and feeds do not go on by themselves at present though they should, and why."""
        engine = self._engine
        return engine.source_views.troubles() | engine.feeds.troubles() | engine.scheduler.troubles()

    def table(self, name: str) -> TableHandle:
        """A table, to be read."""
        return TableHandle(self._engine, self._engine.committed.table(name))

    def has_objects(self, name: str) -> bool:
        """Whether a table holds objects of a class: the extent of one."""
        module = self._engine.committed.module
        return module is not None and name.lower() in module.tables

    def view(self, name: str) -> ViewHandle:
        """A view, to be read, followed, explained and verified."""
        return ViewHandle(self._engine, self._engine.committed.view(name))

    def verify(self, *views: str, against: str | None = None) -> list[Verification]:
        """These views, or all, beside their recomputation from the base tables; ``against`` as for one view."""
        return [self.view(name).verify(against) for name in views or self.views()]

    def tables(self) -> tuple[str, ...]:
        """The names of all tables and streams."""
        return tuple(name for name in self._engine.committed.tables if SUBPLAN_SIGN not in name)

    def views(self) -> tuple[str, ...]:
        """The names of all views, each after those that it reads."""
        return tuple(self._engine.committed.views)

    def at(self, epoch: int) -> WarehouseSnapshot:
        """The warehouse as it was at ``epoch``."""
        return WarehouseSnapshot(self._engine, epoch)

    def subscribe(
        self,
        view: str,
        *,
        since: int | None = None,
        timeout: float | None = None,
        where: Where | None = None,
        buffer: int = DEFAULT_BUFFER_ROWS,
        form: str = "rows",
    ) -> Subscription:
        """What each epoch changes in a view, as it happens, after epoch ``since`` (default: from now on).

        Ends when the warehouse is closed, or when nothing came for ``timeout`` seconds. ``where`` names columns, each
        with a value or a collection of values: only rows that have them. ``buffer`` is how many rows may wait in memory
        for a slow reader; beyond that it reads the store, and ``FellBehind`` says when that has forgotten them.
        ``form`` is what batches are asked for: ``"rows"``, or ``"arrow"``, so that no rows are made of columns.
        """
        return Subscription(self._engine, view, since=since, timeout=timeout, where=where, buffer=buffer, form=form)

    def compact(self) -> int:
        """Merge stored runs; returns the bytes saved."""
        return self._engine.housekeeping.compact()

    def vacuum(self, keep: int = 1) -> int:
        """Forget all but the last ``keep`` epochs; returns the bytes freed. In memory, so many are kept from now on."""
        return self._engine.housekeeping.vacuum(keep)

    def check_files(self) -> Inspection:
        """Read every file of the newest epoch and compare it with its checksum; ``Corrupt`` lists all that differ."""
        store = self._engine.store
        return store.check() if isinstance(store, FolderStore) else Inspection(0, 0, ())

    def close(self) -> None:
        """Let go of the folder. Subscriptions end."""
        self._engine.close()
        self._engine.registry.forget()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@public_function
def open(  # the name is the face: tidemill.open
    path: str | Path = MEMORY,
    *,
    spark: SparkSession | None = None,
    runtime: str = "auto",
    read_only: bool = False,
    durability: str = "epoch",
    memory: str | int | None = None,
    backend: str | None = None,
    follow: bool = False,
    secrets: Iterable[str] = (),
) -> Warehouse:
    """Open a warehouse folder, made if it is not there; ``":memory:"`` keeps nothing on disk, and the last epochs only.

    ``spark`` is your own session; without it a local one starts when it is needed. ``runtime`` is ``"native"``,
    ``"spark"`` or ``"auto"``. ``durability="checkpoint"`` trades the last epochs before a crash for speed.
    ``memory``, such as ``"4GB"``, is what this process may hold: an epoch that would need more is refused.
    ``backend`` of the native runtime is ``"python"``, ``"llvm"`` or ``"auto"``: compiled once there is enough to do.
    With ``start_stream`` sources and feeds that are declared to go on by themselves do so from the beginning; else when
    ``Warehouse.follow`` asks for it. ``secrets`` are variables that sources may take passwords from, beside
    ``TIDEMILL_SECRET_*``.
    """
    check_runtime_name(runtime)
    limit = None if memory is None else parse_size(memory)
    in_memory = str(path) == MEMORY
    place = Path() if in_memory else _folder_named(path)
    temporary = TemporaryFolder() if in_memory else None
    folder = place if temporary is None else temporary.path
    store: Store
    if in_memory and not reads_files_only(runtime):
        store = MemoryStore()
    else:
        store = FolderStore.open(folder, read_only=read_only, durability=durability)
    try:
        keep = MEMORY_EPOCHS if in_memory else None
        placement = Placement(store, runtime, spark, in_memory, backend)
        allowed = Secrets.of(secrets)
        engine = Engine(store, placement, read_only=read_only, keep=keep, memory=limit, follow=follow, secrets=allowed)
    except BaseException:
        store.close()
        raise
    return Warehouse(engine, folder, temporary)


def _folder_named(path: str | Path) -> Path:
    """The folder that a warehouse is to be opened in."""
    folder, text = local_path(path, "warehouse"), str(path)
    if text.startswith(":") and text.endswith(":"):
        raise SetupError("there is no such kind of warehouse", where=text, hint=f'In memory it is "{MEMORY}".')
    if folder.exists() and not folder.is_dir():
        raise StorageError(
            "a warehouse is a folder, and this is a file",
            where=str(folder),
            detail="It is left as it is.",
            hint="Give an empty folder, or one that does not exist yet.",
        )
    return folder
