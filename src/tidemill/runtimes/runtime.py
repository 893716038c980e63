"""The protocol of a runtime: all that the engine asks of it. Both runtimes give the same rows and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.stages import Program, Stage

FieldsOf = Callable[[str], tuple[Field, ...]]
"""The columns of a relation or map, in the order in which its rows hold them."""


class Runtime(Protocol):
    """Runs stages. Between ``begin`` and ``commit`` or ``rollback`` lies one epoch.

    The engine handles relations in topological order. For each changed relation it calls ``fire`` for every stage that
    reads it, then ``absorb``; once all inputs of a stage are handled it calls ``emit``, whose result is the change of
    the relation with the stage's name. An error in between is followed by ``rollback``, which undoes the epoch.
    """

    name: str

    def install(self, stage: Stage) -> None:
        """Get ready to run ``stage``: compile it, and hold or find the state that it needs."""

    def remove(self, stage: Stage) -> None:
        """Forget ``stage`` and its state."""

    def begin(self, epoch: int) -> None:
        """Start epoch ``epoch``."""

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Hear of all changes of an epoch before the first is handled, so that lookups can be made together.

        This runtime will check the tables ``checked``, enforce ``constraints`` and run ``stages``. Nothing may depend
        on the call: it only saves time, and whatever is wrong with a change is said by ``check`` and its successors.
        """

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse a change that cannot be: a row leaves that is not there, or a primary key is there twice.

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
        """The rows of a stage that has a reader, which does not store them; between epochs. Summed, no zero weights."""

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns what to store for each map of the stages that ran (contents of relations excluded).
        Rows are keys then values (``map_fields``); weight is the change of the map's weight."""

    def check_weights(self) -> None:
        """Refuse the epoch where rows or groups in memory occur more often than 64 bits can count; after ``commit``."""

    def rollback(self) -> None:
        """Undo the epoch."""

    def answer(self, program: Program) -> ChangeSet:
        """The rows of a query over the current contents, summed; its stages leave no state behind."""
