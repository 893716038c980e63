"""The work of a job: stages, the changes that fire them, and the files of what they look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
from tidemill.runtimes.spark.tasks.run_files import RunFiles, require_files
from tidemill.storage.store import RunFile

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
    """All that the tasks of a job are given. It is divided into ``parts`` of the changes, and then into ``shards``.

    From ``column_rows`` on, the rows of a part are columns for queries. Changes that are ``divided`` are in files that
    have the rows of each part together; of others a task sorts all rows to find its own.
    """

    epoch: int
    stages: tuple[Stage, ...]
    relations: Relations
    files: Mapping[str, tuple[RunFile, ...]]
    steps: tuple[Step, ...]
    changes: tuple[ChangeSet, ...]
    parts: int
    shards: int
    column_rows: int
    divided: frozenset[int] = frozenset()

    def change(self, number: int) -> ChangeSet:
        """One of the changes."""
        change = self.changes[number]
        require_files(change.files or ())
        return change


class TaskState(RuntimeState):
    """State that is looked up in files, and changes of the epoch as columns beside them: nothing is undone here."""

    def _add_absorbed(self, held: RowMap | OverlaidRelation, change: ChangeSet) -> None:
        assert isinstance(held, OverlaidRelation), "there is no room for dictionaries"
        held.extend(ColumnSnapshot(change.arrow(), change.fields))


class TaskStages:
    """The stages of a job in one task: compiled, over state that is looked up in files."""

    def __init__(self, work: Work) -> None:
        fields_of = dict(work.relations).__getitem__
        self.files = RunFiles(work.files, work.epoch - 1)
        # Nothing fits, not even no rows: whatever is asked for is looked up, however many keys that are.
        self.state = TaskState(self.files, fields_of, column_snapshots(self.files), 0, StateRoom(lambda: -1))
        self.executor = PythonExecutor(self.state, fields_of)
        self._work = work
        self._fields_of = fields_of
        self._map_keys = {map_.name: map_.keys for stage in work.stages for map_ in stage.maps}
        self._pending: dict[int, list[tuple[str, ChangeSet]]] = {}
        self._compiled: dict[int, CompiledStage] = {}
        for stage in work.stages:
            self.state.use(stage)
        self.state.begin()

    def used_fields(self, relation: str) -> tuple[Field, ...]:
        """The columns of a relation that some stage reads, or those of a map by which its entries are found."""
        if relation in self._map_keys:
            return self._map_keys[relation]
        fields = self._fields_of(relation)
        return tuple(fields[place] for place in self.state.used(relation))

    def add_later(self, number: int, relation: str, change: ChangeSet) -> None:
        """Note a change whose additions generated Python is to find in the maps of a stage, if it comes to that."""
        self._pending.setdefault(number, []).append((relation, change))

    def firing(self, number: int) -> CompiledStage:
        """A stage, ready to run its triggers: the maps that they read have what the epoch has added so far."""
        compiled = self.compiled(number)
        for relation, change in self._pending.pop(number, ()):
            self.executor.add_to_read_maps(compiled, relation, change)
        return compiled

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
