"""The protocol of a runtime: all that the engine asks of it. Both runtimes give the same rows and errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.stages import Program, Stage

FieldsOf = Callable[[str], tuple[Field, ...]]
"""The columns of a relation or map, in the order in which its rows hold them."""


ReadTable = Callable[[str, Sequence[Field]], pa.Table]
"""From the name of a relation and some of its columns to these and their weights, which may not be summed."""


class NotAnswered(Exception):
    """DuckDB does not answer a query: it has no translation, or an error came up. Somebody else must be asked."""


class FilledStage(NamedTuple):
    """The contents of a stage that was filled outside of a runtime: its rows, and its maps as they are stored."""

    rows: ChangeSet
    maps: Mapping[str, ChangeSet]


class MachineCode(Protocol):
    """A stage as machine code, to which whole events are passed directly; all maps are up to date after each event."""

    stage: Stage

    @property
    def pending_rows(self) -> int:
        """The number of rows that the open epoch has output so far."""

    def prepare(self) -> None:
        """Load the state that the next event needs."""

    def run(self, order: npt.NDArray[np.integer[Any]], tables: Mapping[str, pa.Table]) -> None:
        """Process many events: for each number in ``order`` the next row of the table at that place."""


class KeyLookup(Protocol):
    """Finds rows of relations by keys, at the cost of these rows; between epochs."""

    def find(self, relation: str, positions: tuple[int, ...], keys: Collection[Row]) -> dict[Row, list[Row]]:
        """The rows of a relation that have one of ``keys`` at ``positions``, by that key."""


class RowLookup(KeyLookup, Protocol):
    """Finds rows by the elements of their arrays, too."""

    def holders(self, relation: str, position: int, elements: Collection[Any]) -> list[Row]:
        """The rows of a relation whose array at ``position`` has one of ``elements``."""


class Runtime(Protocol):
    """Runs stages. Between ``begin`` and ``commit`` or ``rollback`` lies one epoch.

    The engine handles relations in topological order. For each changed relation it calls ``fire`` for every stage that
    reads it, then ``absorb``; once all inputs of a stage are handled it calls ``emit``, whose result is the change of
    the relation with the stage's name. An error in between is followed by ``rollback``, which undoes the epoch.
    """

    name: str
    """Its name in EXPLAIN."""

    loads_to_store: bool
    """True if a stage must be committed between its ``load`` and the first change: its state is read from the store."""

    refills: bool
    """True if it can compute a stage again within an epoch, by queries over the new contents of its inputs."""

    batches_lookups: bool
    """True if lookups cost less together, so that an epoch is announced by ``expect``."""

    def install(self, stage: Stage) -> None:
        """Prepare to run ``stage``: compile it, and hold or find the state that it needs."""

    def remove(self, stage: Stage) -> None:
        """Release ``stage`` and its state."""

    def pause(self, stage: Stage) -> None:
        """Note that another runtime runs ``stage`` from now on, perhaps for one epoch only: its state here shows the
        last epoch, and catches up or is read again when the stage next runs here. Between epochs."""

    def prepare(self, stage: Stage, rows: int) -> bool:
        """Read the state of a stage that is about to take so many rows, so that a process forked from this one has it;
        false if a process cannot run the stage, or if to catch up with it takes as long. Between epochs."""

    def miss_epoch(self) -> None:
        """Note that the next epoch runs without this runtime: the state of relations shows the epoch before, and
        catches up when it is next used. Between epochs."""

    def release_paused(self) -> None:
        """Release the memory of all that has missed epochs; it is read again when it is next used."""

    def release_state(self, wanted: int) -> int:
        """Release state that was not used for long, until about ``wanted`` bytes are given back; returns how many.

        At the beginning of an epoch, before anything has changed."""

    def leave_maps_in_store(self, stage: Stage) -> None:
        """Release the maps of a stage, which this epoch replaces in the store: it is recomputed, and none of its
        triggers run. They are read when they are next needed."""

    def left_in_store(self, stage: Stage) -> Sequence[str]:
        """The maps of an installed stage, and the relations that it looks up, whose rows are not in memory."""

    def forget(self, relation: str) -> None:
        """Release the state of a relation, and of the stage of that name: it was dropped, or changed by others.

        Not while a stage that reads it runs. The next three methods are called between epochs."""

    def forget_entries(self, stage: Stage, forgotten: Sequence[ExpiredEntries]) -> None:
        """Release the state of ``stage`` that the store has removed."""

    def forget_rows(self, forgotten: ExpiredEntries) -> None:
        """Release the rows of a relation that the store has removed."""

    def forget_files(self, relation: str) -> None:
        """Release what depends on the store's files of a relation or stage, which may be deleted; memory stays."""

    def free(self) -> None:
        """Release the memory of all state, between epochs; it is read from the store again when needed."""

    def begin(self, epoch: int) -> None:
        """Start epoch ``epoch``."""

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Announce all changes of an epoch before the first is handled, so that lookups can be batched.

        This runtime will check the tables ``checked``, enforce ``constraints`` and run ``stages``. The call is only an
        optimization: nothing may depend on it, and invalid changes are reported by ``check`` and its successors.
        """

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse an invalid change: it deletes a row that does not exist, or duplicates a primary key.

        Returns the change, summed by row. Comes before ``fire`` for a table; streams are not checked.
        """

    def check_constraints(self, changes: Mapping[str, ChangeSet], constraints: Constraints) -> None:
        """Refuse an epoch after which a constraint would be violated.

        ``changes`` are those of all tables of the epoch, as ``check`` has returned them. Comes after all checks and
        before the first ``fire``.
        """

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Run the trigger of ``stage`` for ``relation``."""

    def absorb(self, relation: str, change: ChangeSet) -> None:
        """Add the change to the contents of ``relation`` as later triggers of this epoch see them."""

    def recompute_pending(self, stage: Stage) -> None:
        """Bring the state of ``stage`` up to date as if the epoch ended here, as far as it is kept in memory."""

    def emit(self, stage: Stage) -> ChangeSet:
        """The net change of the stage's rows: summed, no zero weights."""

    def load(self, stage: Stage) -> ChangeSet:
        """Fill an empty ``stage`` from the whole contents of its inputs; returns its rows. Within an epoch."""

    def produce(self, stage: Stage) -> ChangeSet:
        """The rows of a stage whose rows are not stored, computed from its maps; between epochs. Summed, no zero
        weights."""

    def contents(self, relation: str) -> ChangeSet:
        """The current rows of a relation, between epochs; equal rows may come several times."""

    def machine_code(self, stage: Stage) -> MachineCode | None:
        """``stage`` as machine code, for events that are passed to it directly within an epoch; None if it has no such
        form. Between epochs."""

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns what to store for each map of the stages that ran (contents of relations excluded).
        Rows are keys then values (``map_fields``); the weight is the change of the map's weight."""

    def check_weights(self) -> None:
        """Refuse the epoch if rows or groups in memory occur more often than 64 bits can count; after ``commit``."""

    def rollback(self) -> None:
        """Undo the epoch."""

    def answer(self, program: Program) -> ChangeSet:
        """The rows of a query over the current contents, summed; its stages leave no state behind."""

    def explain(self, stage: Stage) -> str:
        """The form in which an installed stage runs, and why; for EXPLAIN."""

    def sizes(self, stage: Stage) -> Mapping[str, tuple[int, int | None]]:
        """The number of entries of each map of an installed stage, and their bytes in memory, if known.

        For a map that is not in memory the stored rows are counted."""

    def held_sizes(self, stage: Stage) -> Mapping[str, tuple[int, int]]:
        """The number of entries and the bytes of those maps of an installed stage that are in memory, estimated for
        dictionaries. Nothing is loaded."""

    def base_reads(self, stage: str) -> Mapping[str, int]:
        """The number of rows of each relation that this process has read to maintain a stage with lineage."""


class TemporaryRuntime(Runtime, Protocol):
    """A runtime of this process over other contents than those of the warehouse."""

    def change_between(
        self, stage: Stage, name: str, old: Sequence[WeightedRow], new: Sequence[WeightedRow]
    ) -> ChangeSet:
        """The change of a map of an installed stage from the sum of some stored changes to that of others: added to the
        old ones it gives exactly the new entries, those of DOUBLE too."""
