"""The work of a job: stages, the changes that fire them, and the files of what they look up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.model.types import Field
from tidemill.program.stages import Stage
from tidemill.runtimes.native.executor import PythonExecutor
from tidemill.runtimes.native.python.compile import CompiledStage, WrittenStage, write_stage
from tidemill.runtimes.native.runtime_state import RuntimeState
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import ColumnSnapshot
from tidemill.runtimes.native.state.state_reader import column_snapshots
from tidemill.runtimes.native.state_room import StateRoom
from tidemill.runtimes.spark.execution.errors import not_found_by_tasks
from tidemill.runtimes.spark.lookup.lookup_task import lookup_in
from tidemill.storage.mapped.mapped_run import IndexedColumns
from tidemill.storage.runs import read_table
from tidemill.storage.segments import stored_schema
from tidemill.storage.store import ColumnValues, RunFile

Relations = tuple[tuple[str, tuple[Field, ...]], ...]
"""Relations by name, with their columns."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the epoch: the trigger of a stage for a change of ``relation``, or the relation absorbs the change.

    ``stage`` and ``change`` are numbers; ``whole`` says that the rows of the change must not be divided.
    """

    relation: str
    change: int
    stage: int | None = None
    whole: bool = False


@dataclass(frozen=True)
class Work:
    """All that the tasks of a job are given. It is divided into ``parts`` of the changes, and then into ``shards``."""

    epoch: int
    stages: tuple[Stage, ...]
    relations: Relations
    files: Mapping[str, tuple[RunFile, ...]]
    steps: tuple[Step, ...]
    changes: tuple[ChangeSet, ...]
    parts: int
    shards: int

    def change(self, number: int) -> ChangeSet:
        """One of the changes."""
        change = self.changes[number]
        require_files(change.files or ())
        return change


def require_files(files: Iterable[Path]) -> None:
    """Refuse files that are not where the driver has listed them, as on a cluster without a common disk."""
    for file in files:
        if not file.exists():
            raise not_found_by_tasks(file)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of relations and maps, as the driver has listed and verified them: a store to read from."""

    files: Mapping[str, Sequence[RunFile]]
    epoch: int

    def read(
        self,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None = None,
        since: int | None = None,
        where: ColumnValues | None = None,
    ) -> pa.Table:
        """Rows of map ``name`` as of the last epoch, or those with the values of ``where``."""
        assert since is None and until in (None, self.epoch), "tasks read the last epoch"
        schema, runs = stored_schema(fields), self.files.get(name, ())
        require_files(run.file for run in runs)
        return pa.concat_tables([schema.empty_table(), *(_rows_of(run, schema, where) for run in runs)])

    def rows(self, name: str) -> int:
        """Number of stored rows of the map before summing."""
        return sum(run.rows for run in self.files.get(name, ()))


def _rows_of(run: RunFile, schema: pa.Schema, where: ColumnValues | None) -> pa.Table:
    """The rows of a run, or those with the keys ``where`` and perhaps others."""
    if where is None:
        return read_table(run.file, schema)
    by = IndexedColumns(pa.schema([schema.field(name) for name in where]))
    return lookup_in(run, by, pa.table(dict(where)), schema).rows()


class TaskState(RuntimeState):
    """State that is looked up in files, and changes of the epoch as columns beside them: nothing is undone here."""

    def _add_absorbed(self, held: RowMap | OverlaidRelation, change: ChangeSet) -> None:
        assert isinstance(held, OverlaidRelation), "there is no room for dictionaries"
        held.extend(ColumnSnapshot(change.arrow(), change.fields))


class TaskStages:
    """The stages of a job in one task: compiled, over state that is looked up in files."""

    def __init__(self, work: Work) -> None:
        fields_of = dict(work.relations).__getitem__
        files = RunFiles(work.files, work.epoch - 1)
        # Nothing fits, not even no rows: whatever is asked for is looked up, however many keys that are.
        self.state = TaskState(files, fields_of, column_snapshots(files), 0, StateRoom(lambda: -1))
        self.executor = PythonExecutor(self.state, fields_of)
        self._work = work
        self._compiled: dict[int, CompiledStage] = {}
        for stage in work.stages:
            self.state.use(stage)
        self.state.begin()

    def compiled(self, number: int) -> CompiledStage:
        """A stage, ready to run."""
        if number not in self._compiled:
            stage = self._work.stages[number]
            relations = tuple(one for one in self._work.relations if one[0] in stage.inputs)
            self._compiled[number] = _written(stage, relations).bind()
        return self._compiled[number]


@lru_cache(maxsize=256)
def _written(stage: Stage, relations: Relations) -> WrittenStage:
    """The functions of a stage, kept by a worker for later tasks: they are code and no state."""
    return write_stage(stage, dict(relations).__getitem__)
