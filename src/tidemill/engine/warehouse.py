"""The warehouse: the public class, a thin layer over the engine."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, Self

from tidemill.algebra.user_functions import Accumulator
from tidemill.compiler.frontends.script.statements import ReplayLate
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.boundary import public_class
from tidemill.engine.builds.handle import BuildsHandle
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.catalog.entries.user_functions import (
    register_aggregate,
    register_function,
    state_factory,
)
from tidemill.engine.data_source.attached import AttachedViews
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.concurrent_changes.post_keys import is_post_key
from tidemill.engine.epochs.single_events.event_order import EventOrder, parse_event_order
from tidemill.engine.epochs.staleness_marks import is_mark
from tidemill.engine.intake_counts import IntakeCounts, IntakeEpoch
from tidemill.engine.partitions.late_replay import LateReplay, replay_late_changes
from tidemill.engine.partitions.lateness import is_head
from tidemill.engine.published_epochs import PublishedEpochs
from tidemill.engine.quarantine.marks import is_error_mark
from tidemill.engine.refresh.healing import Release
from tidemill.engine.relation_reads import RelationReads
from tidemill.engine.row_changes import RowChanges
from tidemill.engine.sessions.session import Session
from tidemill.engine.streams.debezium_intake import DebeziumIntake
from tidemill.engine.streams.intake import BatchPart, StreamIntake
from tidemill.engine.streams.options import StreamOptions
from tidemill.engine.streams.stream import Stream
from tidemill.engine.warehouse_costs import WarehouseCosts
from tidemill.model.clocks import is_clock_position
from tidemill.model.coerce import coerce
from tidemill.model.errors import InvalidArgument, SetupError
from tidemill.model.types import TIMESTAMP
from tidemill.storage.compaction.vacuum import Inspection
from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.folder_store import FolderStore

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import DataFrame, SparkSession


@public_class
class Warehouse(RowChanges, RelationReads, WarehouseCosts):
    """Tables, and materialized views over them that are maintained with every change.

    >>> import tidemill
    >>> with tidemill.open(":memory:") as wh:
    ...     _ = wh.sql("CREATE TABLE t (a INT)")
    ...     _ = wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    ...     _ = wh.apply({"t": [(+1, (7,)), (+1, (7,))]})
    ...     wh.view("v").rows()
    [(7, 2)]
    """

    def __init__(self, engine: Engine, folder: FilePath, temporary: TemporaryFolder | None) -> None:
        super().__init__()
        self._engine = engine
        self._folder = folder
        self._temporary = temporary
        self._attached = AttachedViews()

    @property
    def positions(self) -> Mapping[str, str]:
        """The position of each source at the last epoch, as given to ``apply``."""
        inner = (is_mark, is_head, is_error_mark, is_post_key, is_clock_position)
        return {name: at for name, at in self._engine.store.positions.items() if not any(test(name) for test in inner)}

    def before_spark(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with the reason whenever runtime ``auto`` is about to start Spark by itself."""
        self._engine.placement.before_spark = tell

    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        arguments: Sequence[str],
        returns: str,
        strict: bool = False,
        form: str = "values",
    ) -> None:
        """Register a deterministic Python function of the values of a row for SQL, with SQL names of types.

        Arguments have the form of ``rows()``, NULL as None; with ``strict`` NULL gives NULL without a call. With
        ``form="pandas"`` they are Series, with ``form="arrow"`` Arrow arrays, and so is the result. An
        exception refuses the epoch. After ``open`` it must be registered again before views that call it continue.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     wh.register_function("shout", lambda text: text.upper() + "!", arguments=["STRING"], returns="STRING")
        ...     wh.sql("SELECT shout('hello') AS text")
        [('HELLO!',)]
        """
        register_function(
            self._engine.registry,
            self._engine.catalog.functions_in_use(),
            name,
            function,
            arguments,
            returns,
            strict,
            form,
        )

    def use_functions_of(self, spark: SparkSession) -> tuple[str, ...]:
        """Register the Python functions that ``spark`` has (``spark.udf.register``); returns their names.

        They take arguments of any types. Those that are not deterministic, and those that are no functions of a row,
        are left out with a warning.
        """
        from tidemill.runtimes.spark.sessions.session_functions import session_functions

        taken = []
        for found in session_functions(spark):
            if not (found.form and found.deterministic):
                why = "a function of a row" if found.deterministic else "deterministic"
                warnings.warn(f'function "{found.name}" is left out: it is not {why}', RuntimeWarning, stacklevel=2)
                continue
            used, returns = self._engine.catalog.functions_in_use(), str(found.returns)
            register_function(self._engine.registry, used, found.name, found.function, None, returns, False, found.form)
            taken.append(found.name)
        return tuple(taken)

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
        """Register an aggregate in Python for SQL: ``add(state, *arguments)`` from ``zero`` on, then ``result(state)``.

        Rows are added in ascending order, and changed groups are recomputed. With ``remove``, which must be the exact
        inverse of ``add``, a change costs only its inserted and deleted rows. ``zero`` is a state, or a function that
        returns one. With ``strict`` rows with a NULL argument are left out.
        """
        steps = Accumulator(state_factory(zero), add, result, remove)
        register_aggregate(
            self._engine.registry, self._engine.catalog.functions_in_use(), name, steps, arguments, returns, strict
        )

    def feed(self, table: str) -> Callable[..., None]:
        """The entry for events of a table or stream, one at a time: ``feed(+1, *row)``.

        Every view is fresh after each event. Events share an open epoch until the next access (see
        ``engine.epochs.single_events``). If everything that reads a stream can be compiled, the entry is machine code.
        """
        self._engine.committed.require_own_rows([table.lower()])
        return self._engine.events.feed(self._engine.committed.table(table))

    def replay(self, changes: Mapping[str, Any], order: Sequence[str] | EventOrder) -> None:
        """Apply many events in order, every view fresh after each; like those of ``feed`` they share an epoch.

        ``changes`` are as for ``apply``. ``order`` has for each event the table whose next row it is: its name, or in
        an array of integers its index in ``changes``.
        """
        taken = self._take(changes)
        self._engine.committed.require_own_rows(taken)
        self._engine.events.replay(taken, parse_event_order(order, taken))

    def replay_late(self, table: str, where: str | None = None, *, ahead: bool = False) -> LateReplay:
        """Apply late changes of a table or stream as one epoch: those for which the SQL condition ``where`` is true.

        Changes of partitions that are no longer retained stay in the table of late changes; the result counts them. So
        do those that were set aside because they lie very far after all others, which are taken ``ahead``.
        """
        condition = f"{' AHEAD' if ahead else ''}{'' if where is None else f' WHERE {where}'}"
        (statement,) = parse(f"REPLAY LATE `{table}`{condition}", name="where")
        assert isinstance(statement, ReplayLate)
        return replay_late_changes(self._engine, statement)

    def flush(self) -> int:
        """Commit the open epoch of events; returns the last epoch."""
        self._engine.flush()
        return self.epoch

    def stream(
        self,
        table: str | Sequence[str] | Mapping[str, BatchPart],
        frame: DataFrame,
        *,
        name: str | None = None,
        checkpoint: str | Path | None = None,
        mode: str = "append",
        on_error: str = "refuse",
        sequence_by: str | None = None,
        delete_where: str | None = None,
        **trigger: Any,
    ) -> Stream:
        """Apply every batch of a streaming frame as one epoch of ``table``, exactly once; returns the running stream.

        For several tables ``table`` has a function for each, from the frame of a batch to the frame of its changes of
        that table: all are one epoch. ``name`` distinguishes several streams into one table. ``checkpoint`` is Spark's
        folder for the query, by default one within the warehouse. ``trigger`` are the arguments of
        ``DataStreamWriter.trigger``, such as ``availableNow=True``.

        With ``mode="debezium"`` rows are records of Spark's Kafka source, each a change record of Debezium in JSON of
        one of the tables: one name, or a list of them.

        With ``mode="upsert"`` a row replaces the one with its primary key: of several the one with the greatest
        ``sequence_by``; a row for which the SQL condition ``delete_where`` is true deletes it. With
        ``on_error="quarantine"`` rows that the table cannot take go to the table ``<table>_errors``.
        """
        from tidemill.runtimes.spark.execution.ingest import StreamBatches, computed_once, start_stream

        if isinstance(table, str) or not isinstance(table, Mapping):
            named = [table] if isinstance(table, str) else list(table)
            parts: Mapping[str, BatchPart] = {one: lambda batch: batch for one in named}
        else:
            parts = table
        targets = {self._engine.committed.table(given).name: part for given, part in parts.items()}
        if not targets:
            raise InvalidArgument("a stream needs a table that takes it in", hint='Use {"orders": function}.')
        name = name or ", ".join(targets)
        options = StreamOptions(mode, on_error, sequence_by, delete_where)
        if len(targets) > 1 and options.mode != "debezium" and not isinstance(table, Mapping):
            raise InvalidArgument("each of several tables needs its part of a batch", hint='Use {"orders": function}.')
        intake: StreamIntake | DebeziumIntake = (
            DebeziumIntake(self._engine, name, targets)
            if options.mode == "debezium"
            else StreamIntake(self._engine, name, targets, options, self._take)
        )
        intake.prepare()

        def take(batch: DataFrame, source: str, position: str) -> None:
            reads = 1 if options.mode == "debezium" else len(targets) + options.sets_aside
            with computed_once(batch, reads) as rows:
                intake.take(rows, source, position)

        if checkpoint is None:
            checkpoint = self._checkpoint_folder(hashlib.sha256(name.encode()).hexdigest()[:16])
        batches = StreamBatches(name, lambda source: self._engine.store.positions.get(source), take)
        return Stream(start_stream(frame, batches, checkpoint, trigger), intake, batches, trigger)

    def _checkpoint_folder(self, name: str) -> Path:
        """The folder in the warehouse where Spark notes how far a stream is."""
        if isinstance(self._folder, Path):
            return self._folder / "checkpoints" / name
        raise SetupError(
            "a stream into a warehouse in an object store needs a folder for Spark's checkpoints",
            where=str(self._folder),
            hint="Give checkpoint=, a folder that Spark can write.",
        )

    @property
    def spark(self) -> SparkSession:
        """The Spark session of this warehouse, started if necessary."""
        return self._engine.placement.session

    def attach(self, spark: SparkSession | None = None, *, prefix: str = "") -> tuple[str, ...]:
        """Make tables and views temporary views of a session, by default the warehouse's own; returns their names.

        A query sees the last epoch that is committed when it runs. Tables and views that are created later are
        attached by another call. ``prefix`` begins all names.
        """
        folder = None if self._temporary else str(self._folder)
        names = self._attached.attach(spark or self.spark, folder, self._engine.committed, prefix)
        self._engine.tell(name.removeprefix(prefix) for name in names)
        return names

    def detach(self, spark: SparkSession | None = None) -> None:
        """Drop the temporary views that ``attach`` made in a session."""
        self._attached.detach(spark or self.spark)

    def sync(self, name: str | None = None, *, timeout: float | None = None, publish: bool = True) -> IntakeEpoch:
        """Ingest waiting files of a feed, new versions of a lake table, or what the sources of a view have committed.

        By default of all; all lake tables are one epoch. Published views are then published, unless told otherwise.

        Ends when everything that was there at the start is shown, however much comes meanwhile, or for views over
        sources after ``timeout`` seconds. Returns the epoch, with ``counts`` and what was ``published``.
        """
        engine, came = self._engine, IntakeCounts()
        is_feed = name is not None and name.lower() in engine.catalog.feeds
        is_lake = name is not None and name.lower() in engine.catalog.lakes
        if is_feed or name is None:
            came += engine.feeds.sync(name)
        if is_lake or name is None:
            came += engine.lakes.sync(name)
        if not (is_feed or is_lake):
            before = engine.source_views.tally.total
            engine.source_views.sync(name, timeout)
            came += engine.source_views.tally.total - before
        epoch = self.flush()
        published = self.publish() if name is None and publish else None
        return IntakeEpoch(epoch, came, published)

    def publish(self, view: str | None = None) -> PublishedEpochs:
        """Publish a view, or all that have the option ``publish``, as lake tables; returns the epochs that these show.

        A table is written once for each epoch, also if this process ends between two commits. The result has the rows
        that changed and the bytes that were written, of all and by view in ``tables``.
        """
        published = self._engine.publications.publish(view)
        self._engine.tell(published)
        return published

    @property
    def taken(self) -> IntakeCounts:
        """Counts of everything ingested from feeds, lake tables and sources since the warehouse was opened."""
        return self._engine.feeds.tally.total + self._engine.lakes.tally.total + self._engine.source_views.tally.total

    def schedule(self, limit: int | None = None) -> list[str]:
        """Refresh the views with ``refresh = 'scheduled'``, the most urgent first, until none is behind.

        At most ``limit`` of them share an epoch. Returns their names in the order in which they were refreshed.
        """
        self._engine.state.require_writable()
        return self._engine.scheduler.run(limit)

    def advance(self) -> int:
        """Move to the newest epoch that another process has committed, and return it.

        A read-only warehouse stays at the epoch that it was opened at until this is called, or a subscription reads on.
        """
        if not self._engine.state.read_only:
            return self.flush()
        self._engine.poll()
        return self.epoch

    @property
    def clocks(self) -> Mapping[str, datetime]:
        """The instant of each clock that views read: ``wall``, and event clocks by the column that they follow."""
        return self._engine.clocks.instants

    def advance_clock(self, to: datetime | str | None = None, *, clock: str = "wall") -> int:
        """Advance a clock of views, by default the wall clock to the present, as one epoch; returns the epoch.

        Rows that conditions on ``now()`` compare with it come and go. A clock never goes back: an instant that it has
        passed changes nothing. ``to`` is in UTC, unless it has a time zone.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh:
        ...     _ = wh.advance_clock("2024-05-01 10:00:00")
        ...     _ = wh.sql("CREATE TABLE logins (who STRING, at TIMESTAMP)")
        ...     _ = wh.sql(
        ...         "CREATE MATERIALIZED VIEW recent AS SELECT who FROM logins WHERE at > now() - INTERVAL 1 HOUR"
        ...     )
        ...     _ = wh.sql("INSERT INTO logins VALUES ('ann', TIMESTAMP '2024-05-01 09:30:00')")
        ...     before = wh.view("recent").rows()
        ...     _ = wh.advance_clock("2024-05-01 10:30:00")
        ...     before, wh.view("recent").rows()
        ([('ann',)], [])
        """
        instant = None if to is None else coerce(to, TIMESTAMP)
        return self._engine.clocks.advance(clock.lower(), instant)

    def tick_clock(self, every: float = 1.0) -> None:
        """Advance the wall clock in a thread, every so many seconds, until the warehouse is closed.

        A tick is an epoch if a row comes or goes, else once in a minute. ``follow`` does it, too.
        """
        self._engine.state.require_writable()
        if not 0 < every < TIMEOUT_MAX:
            raise InvalidArgument(f"a clock cannot tick every {every} seconds")
        self._engine.ticker.start(every)

    def follow(self, limit: int | None = None) -> None:
        """Start background threads for all sources, feeds and lake tables, also manual ones, for scheduled views, and
        for the wall clock.

        They run until the warehouse is closed. ``troubles`` reports their failures. ``limit`` is that of ``schedule``.
        A read-only warehouse follows its writer instead.
        """
        if self._engine.state.read_only:
            self._engine.follower.start()
            return
        self._engine.source_views.follow_all()
        self._engine.feeds.follow_all()
        self._engine.lakes.follow_all()
        self._engine.publications.follow_all()
        self._engine.scheduler.follow(limit)
        self._engine.ticker.start()

    def release(self, view: str, *, skip: bool = False) -> Release:
        """Try the rows again that a view with ``on_error = 'quarantine'`` does not show; returns how many it took.

        With ``skip`` it goes on without the rows at fault: these stay listed as skipped until they are deleted.
        """
        return self._engine.release(self._engine.committed.view(view).name, skip=skip)

    @property
    def builds(self) -> BuildsHandle:
        """The views that are being built in the background: their progress, pause, resume, cancel and wait."""
        return BuildsHandle(self._engine.builds)

    def session(
        self,
        user: str | None = None,
        roles: Sequence[str] = ("owner",),
        name: str = "",
        *,
        timeout: float | None = None,
    ) -> Session:
        """A session, which has transactions, temporary views and variables of its own, and the rights of its ``roles``.

        It may be used from any thread, by one at a time. ``timeout`` is the number of seconds that a statement may
        take. ``name`` says where it comes from.

        >>> import tidemill
        >>> with tidemill.open(":memory:") as wh, wh.session(user="ann") as session:
        ...     _ = wh.sql("CREATE TABLE t (a INT)")
        ...     _ = session.sql("BEGIN; INSERT INTO t VALUES (7)")
        ...     session.sql("SELECT a FROM t"), wh.sql("SELECT a FROM t")
        ([(7,)], [])
        """
        return Session(self._engine, SessionState(user, tuple(roles), name, timeout))

    def compact(self) -> int:
        """Merge stored runs; returns the bytes saved."""
        return self._engine.housekeeping.compact()

    def vacuum(self, keep: int = 1) -> int:
        """Drop all but the last ``keep`` epochs; returns the bytes freed. In memory, ``keep`` is the new limit."""
        return self._engine.housekeeping.vacuum(keep)

    def check_files(self) -> Inspection:
        """Compare every file of the newest epoch with its checksum; ``Corrupt`` lists all that differ."""
        store = self._engine.store
        return store.check() if isinstance(store, FolderStore) else Inspection(0, 0, ())

    def close(self) -> None:
        """Close the warehouse and release its folder. Subscriptions end."""
        self._engine.close()
        self._engine.registry.forget()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
