"""A view that gets columns which are computed from those that it has."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemill.changes.alterations import Alteration
from tidemill.changes.formulas import Formula, columns_of, evaluated
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView
from tidemill.engine.definitions.replacing.prepared import Preparation
from tidemill.engine.epochs.state import EngineState
from tidemill.model.types import Field
from tidemill.runtimes.runtime import NotAnswered
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["PreparedColumns"]


class PreparedColumns(Preparation):
    """A view that has some columns more, which are computed from the others: its rows stay as they are stored."""

    def __init__(self, state: EngineState, replaced: ReplacedView, formulas: Mapping[str, Formula]) -> None:
        super().__init__(state, replaced)
        self._formulas = formulas
        self._snapshot = state.store.pin()

    @property
    def alterations(self) -> tuple[Alteration, ...]:
        """The columns that the view gets."""
        fields = {f.name: f for f in self.replaced.new.fields}
        return tuple(Alteration.compute(fields[name], formula) for name, formula in self._formulas.items())

    def run(self) -> None:
        """Compute the columns once: where that is an error, the view says what it is."""
        self._compute(self._snapshot.read(self.replaced.old.name, self._inputs))
        fault("replacement-prepared")

    @property
    def holds(self) -> bool:
        """True if the columns can be computed of rows that have come meanwhile, too."""
        if not super().holds:
            return False
        later = self._state.store.read(self.replaced.old.name, self._inputs, since=self._snapshot.epoch)
        try:
            self._compute(later)
        except NotAnswered:
            return False
        return True

    @property
    def _inputs(self) -> list[Field]:
        read = {name for formula in self._formulas.values() for name in columns_of(formula)}
        return [f for f in self.replaced.old.fields if f.name in read]

    def _compute(self, rows: pa.Table) -> None:
        try:
            for formula in self._formulas.values():
                evaluated(formula, rows.column, rows.num_rows)
        except pa.ArrowException as error:
            raise NotAnswered(str(error)) from error

    def close(self) -> None:
        """Release the snapshot."""
        self._snapshot.close()
