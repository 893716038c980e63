"""The choice between machine code and generated Python for a stage: as configured, or by the amount of work.

Compiling costs a few tenths of a second, once; after that a row costs a fraction of what it does in Python. So a stage
starts in Python and moves once it has processed enough rows. It moves between epochs, when the store holds all of its
state. A stage that has no native form stays in Python, and EXPLAIN says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import SetupError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import sources_of
from tidemill.program.stages import Stage
from tidemill.program.statements import Version
from tidemill.runtimes.native.missed_epochs import in_epoch_order, is_cheaper_to_add, read_missed
from tidemill.runtimes.native.python.compile import CompiledStage
from tidemill.runtimes.native.state_room import ReleasableState, compiled_bytes
from tidemill.storage.store import ReadableStore

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.codegen.memory import Memory
    from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
    from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage
    from tidemill.runtimes.native.llvm.table.counted_rows import CountedRows
    from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable

TableOf = Callable[[str], Table | None]
"""Gives the table of a name; None of a view."""

BACKENDS = ("auto", "python", "llvm")

BACKEND = os.environ.get("TIDEMILL_BACKEND", "auto")
"""The default back end."""

COMPILE_AFTER_ROWS = 20_000
"""Rows processed after which a stage is compiled, and the first table."""

BULK_ROWS = 1_000
"""Rows of an epoch from which a stage over large inputs, or a large table, is compiled at once, though it has
processed few rows."""

FEW_ROWS = 64
"""Rows of a change up to which deleted rows are looked up in a dictionary of all rows, if there is one."""

TABLE_AFTER_ROWS = 2_000
"""Rows after which other tables are: LLVM is loaded by then, and the index of a key takes a hundredth of a second."""


LOADED_FOR_ROW = 72
"""Stored rows that are read into compiled form for each row that was processed without them. A row that is looked up in
the store and processed in Python takes as long as reading 18; four times as many, because a process that has taken some
changes may take many more, and those that take one, such as ``tidemill sync``, are to end soon."""

MIRRORED_ROWS = 4_000_000
"""Size of a relation above which compiled stages keep no copy unless configured: Python fetches the rows it needs."""


MAX_COMPILED_LOOPS = 1_000
"""Number of loops above which a stage stays in Python unless configured: compiling takes a second per hundred."""


LLVM_BYTES = 96 << 20
"""Bytes that a process takes which loads LLVM: no budget has room for a first compiled stage without them."""


class StoredState:
    """The stored state of stages, and the current rows of relations."""

    def __init__(self, store: ReadableStore, rows: Callable[[str], ChangeSet], changing: Callable[[str], bool]) -> None:
        """``changing`` is true of a relation that the current epoch has changed."""
        self._store = store
        self.rows = rows
        self._changing = changing

    @property
    def epoch(self) -> int:
        """The last epoch that is stored."""
        return self._store.epoch

    def size(self, relation: str) -> int:
        """An upper bound of the number of rows of a relation."""
        return self._store.rows(relation)

    def stored(self, map_: Map) -> pa.Table:
        """The stored changes of a map, in order of epochs if it has sums of DOUBLE: only then are these exact to the
        bit."""
        return in_epoch_order(self._store.read(map_.name, map_fields(map_)), map_)

    def missed_rows(self, table: Table, since: int) -> ChangeSet | None:
        """The changes of a table after epoch ``since``; None if loading it again is cheaper."""
        found = read_missed(self._store, since, {table.name: table.fields})
        if found is None or self._changing(table.name):
            return None
        rows = found[table.name]
        if not is_cheaper_to_add(rows.num_rows, self._store.rows(table.name)):
            return None
        return ChangeSet.of_arrow(rows.select(arrow_schema(table.fields).names), table.fields)

    def missed(self, since: int, maps: Sequence[Map], mirrors: Sequence[Map]) -> dict[str, pa.Table] | None:
        """The changes of maps and copied relations after epoch ``since``; None if loading them again is cheaper."""
        if any(self._changing(mirror.name) for mirror in mirrors):
            return None
        held = [*maps, *mirrors]
        found = read_missed(self._store, since, {map_.name: map_fields(map_) for map_ in held})
        stored = sum(self._store.rows(map_.name) for map_ in held)
        if found is None or not is_cheaper_to_add(sum(table.num_rows for table in found.values()), stored):
            return None
        return {map_.name: in_epoch_order(found[map_.name], map_) for map_ in held}


class Backends:
    """The compiled stages of a runtime, and the reasons why others are not."""

    def __init__(
        self,
        choice: str,
        state: StoredState,
        fields_of: Callable[[str], tuple[Field, ...]],
        room: Callable[[], int | None] = lambda: None,
        table_of: TableOf = lambda name: None,
        fits: Callable[[int], bool] = lambda bytes_: True,
    ) -> None:
        """``room`` gives the number of bytes that the maps may still take, None for no limit; ``fits`` tells if a
        stage or table whose state takes so many is to be compiled."""
        if choice not in BACKENDS:
            raise SetupError(f'there is no back end "{choice}"', hint=f"Use one of {', '.join(BACKENDS)}.")
        self.choice = choice
        self._state = state
        self._fields_of = fields_of
        self._room = room
        self._fits = fits
        self._table_of = table_of
        self._runners: dict[str, LlvmStage] = {}
        self.runner = self._runners.get
        """Gives the compiled stage of a name; None if it runs in Python."""
        self._tables: dict[str, LlvmTable | None] = {}
        self.counted: dict[str, CountedRows | None] = {}
        """The tables without a primary key whose rows are counted; None of one whose rows cannot be."""
        self.used: set[LlvmStage] = set()
        """The stages whose state may have changed since ``begin``: events may have gone to their code directly."""
        self._used_tables: set[LlvmTable] = set()
        self._used_counts: set[CountedRows] = set()
        self._reasons: dict[str, str] = {}
        self._work: dict[str, int] = {}
        self._table_work: dict[str, int] = {}
        self._shared: tuple[Memory, StringDictionary] | None = None
        self._epoch = 0
        self._last_used: dict[str, int] = {}
        self._fed: set[str] = set()
        """The stages that events are passed to directly: whoever does so holds their code."""
        self.epoch_rows = 0
        """The number of rows of the epoch that were checked; they are before any stage is fired."""

    def compile_if_worthwhile(
        self, compiled: CompiledStage, rows: int, *, reads_state: bool = True
    ) -> LlvmStage | None:
        """Compile a stage that is about to process so many rows, if configured or if it pays.

        A stage that ``reads_state`` stays in Python if a memory budget has no room for it: there, entries are looked up
        in the store."""
        name = compiled.stage.name
        if self.choice == "python" or name in self._runners or name in self._reasons:
            return self.runner(name)
        work = self._work[name] = self._work.get(name, 0) + rows
        if work < COMPILE_AFTER_ROWS and self.epoch_rows < BULK_ROWS and self.choice == "auto":
            return None
        is_large = self.epoch_rows >= BULK_ROWS and self._has_large_inputs(compiled.stage)
        is_due = work >= COMPILE_AFTER_ROWS or is_large
        if reads_state and is_due:
            is_due = self._repays(self._rows_to_read(compiled.stage), work)
        if self.choice == "llvm" or is_due:
            loops = sum(1 for _ in sources_of(compiled.stage))
            if self.choice == "auto" and loops > MAX_COMPILED_LOOPS:
                self._reasons[name] = f"its {loops:,} loops would take long to compile"
                return None
            if not reads_state or self.has_room_for(compiled.stage):
                self._compile(compiled)
            return self.runner(name)
        return None

    def has_room_for(self, stage: Stage) -> bool:
        """True if what a compiled form of ``stage`` would have to read now fits into the memory budget."""
        runner = self.runner(stage.name)
        if runner is not None and runner.ready:
            return True
        maps = sum(compiled_bytes(self._state.size(map_.name), len(map_fields(map_))) for map_ in stage.maps)
        relations = self._relations_to_read(stage)
        sizes = [compiled_bytes(self._state.size(name), len(self._fields_of(name))) for name in relations]
        return self._fits(maps + sum(sizes) + (LLVM_BYTES if self._shared is None else 0))

    def _relations_to_read(self, stage: Stage) -> list[str]:
        """The relations that a compiled form of ``stage`` would read, and nobody has in compiled form."""
        own = {map_.name for map_ in stage.maps}
        read = {source.relation for source in sources_of(stage) if source.version is Version.STATE} - own
        return [name for name in read if self.ready_table(name) is None]

    def _rows_to_read(self, stage: Stage) -> int:
        """The number of stored rows that a compiled form of ``stage`` would read now."""
        names = [*(map_.name for map_ in stage.maps), *self._relations_to_read(stage)]
        return sum(map(self._state.size, names))

    def _repays(self, rows: int, work: int) -> bool:
        """True if reading so many stored rows has been missed for long enough, at ``work`` processed rows."""
        return rows <= LOADED_FOR_ROW * work

    def keep_for_events(self, name: str) -> None:
        """Note that events are passed to a compiled stage directly, so that it is never released for others."""
        self._fed.add(name)

    def releasable(self, release: Callable[[Stage], None]) -> list[ReleasableState]:
        """The state of compiled stages, and of tables that none of these reads; ``release`` takes a stage back."""
        stages = {name: runner for name, runner in self._runners.items() if runner.ready}
        free = [runner for name, runner in stages.items() if name not in self._fed]
        shared = {table for runner in stages.values() for table in runner.code.tables}
        tables = [table for table in self._held_tables() if table.table.name not in shared]
        return [
            ReleasableState(self._last_used.get(runner.stage.name, 0), runner.size, partial(release, runner.stage))
            for runner in free
        ] + [
            ReleasableState(
                self._last_used.get(table.table.name, 0),
                compiled_bytes(self._state.size(table.table.name), len(table.table.fields)),
                table.free,
            )
            for table in tables
            if table.ready
        ]

    def allow_room(self) -> None:
        """Limit the memory of compiled maps to what the budget has left."""
        if self._shared is not None:
            self._shared[0].allow(self._room())

    def _has_large_inputs(self, stage: Stage) -> bool:
        """True if the inputs of a stage are large: in a large epoch its state then goes into compiled maps."""
        return sum(map(self._state.size, stage.inputs)) >= COMPILE_AFTER_ROWS

    def note_work(self, name: str, rows: int) -> None:
        """Add to the number of rows that a stage has processed."""
        self._work[name] = self._work.get(name, 0) + rows

    def stays_in_python(self, stage: Stage) -> bool:
        """True if a stage is known to run in Python however many rows it takes: by its kind, or since it was tried."""
        if self.choice == "python" or stage.name in self._reasons:
            return True
        if stage.name in self._runners:
            return False
        from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
        from tidemill.runtimes.native.llvm.stage.check_stage import check_finish

        try:
            check_finish(stage)
        except NotCompiled:
            return True
        return False

    def leave_in_store(self, name: str) -> None:
        """Release the state of a stage, which the store has from now on."""
        runner = self._runners.get(name)
        if runner is not None:
            runner.free()

    def table(self, table: Table, rows: int) -> LlvmTable | None:
        """The compiled rows and index of a table that is about to take so many rows, if that pays."""
        name = table.name
        if self.choice == "python" or not table.primary_key:
            return None
        self._last_used[name] = self._epoch
        if name in self._tables:
            known = self._tables[name]
            return known if known is None or known.ready or self._has_room_for_rows(table) else None
        return self._compile_table(table) if self._is_table_worthwhile(table, rows) else None

    def counted_rows(self, table: Table, rows: int) -> CountedRows | None:
        """The counted rows of a table without a primary key that is about to take so many rows, if that pays."""
        name = table.name
        if self.choice == "python" or table.forgets:
            return None
        self._last_used[name] = self._epoch
        if name not in self.counted:
            return self._count_rows(table) if self._is_table_worthwhile(table, rows) else None
        known = self.counted[name]
        return known if known is None or known.ready or self._has_room_for_rows(table) else None

    def _is_table_worthwhile(self, table: Table, rows: int) -> bool:
        """True if a table is to be compiled, of which so many more rows change."""
        work = self._table_work[table.name] = self._table_work.get(table.name, 0) + rows
        enough = COMPILE_AFTER_ROWS if self._shared is None else TABLE_AFTER_ROWS
        size = self._state.size(table.name)
        is_large = rows >= BULK_ROWS and size >= COMPILE_AFTER_ROWS
        is_due = (work >= enough or is_large) and self._repays(size, work)
        return (self.choice != "auto" or is_due) and self._has_room_for_rows(table)

    def _has_room_for_rows(self, table: Table) -> bool:
        """True if the rows of a table fit into the memory budget."""
        needed = compiled_bytes(self._state.size(table.name), len(table.fields))
        return self._fits(needed + (LLVM_BYTES if self._shared is None else 0))

    def _compile_table(self, table: Table) -> LlvmTable | None:
        from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
        from tidemill.runtimes.native.llvm.table.llvm_table import LlvmTable

        try:
            compiled = LlvmTable(table, self._state, *self._memory(), self._used_tables)
        except NotCompiled:
            compiled = None
        self._tables[table.name] = compiled
        return compiled

    def _count_rows(self, table: Table) -> CountedRows | None:
        from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
        from tidemill.runtimes.native.llvm.table.counted_rows import CountedRows

        try:
            counted = CountedRows(table, self._state, *self._memory(), self._used_counts)
        except NotCompiled:
            counted = None
        self.counted[table.name] = counted
        return counted

    def pause_counts(self, name: str) -> None:
        """Note that a change of a table without a primary key was checked elsewhere, or needs no check."""
        counted = self.counted[name]
        if counted is not None:
            counted.pause()

    def _shared_table(self, name: str) -> LlvmTable | None:
        """The table in which stages look rows of a relation up; None if each must have its own copy."""
        if name in self._tables:
            return self._tables[name]
        table = self._table_of(name)
        if table is None or not table.primary_key or not table.kept or table.forgets:
            return None
        return self._compile_table(table)

    def ready_table(self, name: str) -> LlvmTable | None:
        """The compiled rows and index of a table, if they have been read."""
        table = self._tables.get(name)
        return table if table is not None and table.ready else None

    def show(self, name: str, change: ChangeSet) -> None:
        """Show stages a change of a table, after they have been fired with it."""
        table = self._tables.get(name)
        if table is not None and table.ready:
            table.show(change)
        counted = self.counted[name] if name in self.counted else None  # noqa: SIM401 - a call for every row
        if counted is not None and not counted.has_taken:
            counted.pause()

    def follow_table(self, name: str, change: ChangeSet) -> None:
        """Add a change of a table that was checked elsewhere; the rows are read again later if that fails."""
        table = self.ready_table(name)
        if table is not None and table.take(change) is None:
            table.free()

    def _memory(self) -> tuple[Memory, StringDictionary]:
        """Memory and strings shared by all compiled code of the runtime."""
        from tidemill.runtimes.native.llvm.codegen.memory import Memory
        from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary

        if self._shared is None:
            memory = Memory(self._room())
            self._shared = memory, StringDictionary(memory)
        return self._shared

    def _compile(self, compiled: CompiledStage) -> None:
        # LLVM is a large library: a process whose stages are small never loads it.
        from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
        from tidemill.runtimes.native.llvm.stage.emit_stage import emit_stage
        from tidemill.runtimes.native.llvm.stage.llvm_stage import LlvmStage

        try:
            code = emit_stage(compiled.stage, self._fields_of, lambda name: self._shared_table(name) is not None)
        except NotCompiled as reason:
            self._reasons[compiled.stage.name] = f"there is no native form of {reason}"
            return
        if self.choice == "auto" and sum(map(self._state.size, code.mirrors)) > MIRRORED_ROWS:
            self._reasons[compiled.stage.name] = "what it looks rows up in is too large to be copied"
            return
        self._runners[compiled.stage.name] = LlvmStage(
            code, compiled.finish, self._state, *self._memory(), self.used, self._shared_table
        )

    def explain(self, stage: Stage) -> str:
        """The back end of a stage, and why."""
        if stage.name in self._runners:
            return "compiled with LLVM"
        if stage.name in self._reasons:
            return f"generated Python: {self._reasons[stage.name]}"
        if self.choice == "python":
            return "generated Python, as asked for"
        return f"generated Python, until it has taken in {COMPILE_AFTER_ROWS:,} rows"

    def remove(self, name: str) -> None:
        """Release a stage."""
        runner = self._runners.pop(name, None)
        if runner is not None:
            runner.free()
            self.used.discard(runner)
        self._reasons.pop(name, None)
        self._work.pop(name, None)
        self._fed.discard(name)

    def forget(self, relation: str) -> None:
        """Release what stages hold of a relation that others have changed, and the stage of that name."""
        for name, runner in self._runners.items():
            if name == relation or relation in runner.code.mirrors or relation in runner.code.tables:
                runner.free()
        table, counted = self._tables.pop(relation, None), self.counted.pop(relation, None)
        if table is not None:
            table.free()
            self._used_tables.discard(table)
        if counted is not None:
            counted.free()
            self._used_counts.discard(counted)

    def pause(self, name: str) -> None:
        """Note that the next epochs run a stage elsewhere."""
        if name in self._runners:
            self._runners[name].pause()

    def release_paused(self) -> None:
        """Release the memory of stages that have missed epochs."""
        for runner in self._runners.values():
            if runner.is_paused:
                runner.free()
        for table in self._held_tables():
            if table.is_paused:
                table.free()

    def miss_epoch(self) -> None:
        """Note that the next epoch is committed without this state: tables show the last one until they are used."""
        for table in self._held_tables():
            table.pause()

    def _held_tables(self) -> list[LlvmTable | CountedRows]:
        """The compiled tables, with a primary key and without."""
        return [table for table in (*self._tables.values(), *self.counted.values()) if table is not None]

    def free(self) -> None:
        """Release the memory of all stages; they read their state again when they next need it."""
        for held in (*self._runners.values(), *self._held_tables()):
            held.free()

    def begin(self) -> None:
        """Start an epoch from the current state, with the memory limit of now."""
        self.epoch_rows = 0
        self.allow_room()
        for stage in self.used:
            self._last_used[stage.stage.name] = self._epoch
            stage.settle()
        self._epoch += 1
        for table in self._used_tables:
            table.settle()
        self.used.clear()
        self._used_tables.clear()
        if self._used_counts:
            for counted in self._used_counts:
                counted.settle()
            self._used_counts.clear()

    def rollback(self) -> None:
        """Undo the epoch."""
        for stage in self.used:
            stage.rollback()
        for table in self._used_tables:
            table.rollback()
        for counted in self._used_counts:
            counted.rollback()
