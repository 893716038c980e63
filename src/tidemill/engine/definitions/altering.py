"""Common steps of alterations: the checks that refuse them, and a commit that views are then rebuilt after.

Every view is compiled again. Until those whose program is another one are rebuilt they are marked as outdated, so that
a process that dies on the way leaves a warehouse that rebuilds them when it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.changes.changeset import Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.marks import mark_of_errors
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.model.errors import Unsupported
from tidemill.model.schema import LATE
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["Altering", "require_fillable"]


class Altering:
    """Commits an altered catalog, and rebuilds the views that need it."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, filler: ViewFiller) -> None:
        self._state = state
        self._epochs = epochs
        self._filler = filler

    def require_alterable(self, name: str, *, owned: bool = False) -> None:
        """Refuse tables that are not altered by themselves, and while rows are held that have the present columns.

        Those that hold objects are altered by who keeps them, with ``owned``.
        """
        catalog = self._state.catalog
        table = catalog.table(name)
        catalog.require_not_read_by_builds(name, "altered")
        if catalog.module is not None and not owned:
            catalog.module.require_not_class_table(name, "altered")
        if catalog.owner_of_errors(name) is not None:
            raise catalog.not_changed_by_hand(name, "altered")
        owner = next((late for late in catalog.late if name == late + LATE), None)
        if owner is not None:
            raise Unsupported(
                f'"{name}" cannot be altered',
                detail=f'It takes the late changes of "{owner}", and has its columns.',
                hint=f"ALTER TABLE {owner}: this one follows.",
            )
        for view in catalog.guarded.values():
            if name in view.inputs and mark_of_errors(self._state.store.positions, view.name) is not None:
                raise Unsupported(
                    f'"{table.name}" cannot be altered now',
                    detail=f'View "{view.name}" is in quarantine, and its held rows have the present columns.',
                    hint=f"Correct these rows first: SELECT * FROM {view.name}_errors.",
                )

    def commit(self, epoch: Epoch) -> None:
        """Commit an altered catalog. Until ``follow`` has ended, what is in memory is not what is stored."""
        fault("before-alter")
        self._epochs.commit(epoch, ends=False)()
        fault("after-alter")

    def follow(self) -> list[str]:
        """Load what was committed, and rebuild the views that need it; returns their names."""
        rebuilt = self._filler.rebuild(self._state.reload())
        self._epochs.end()
        return rebuilt


def require_fillable(catalog: Catalog, outdated: Sequence[View], what: str) -> None:
    """Refuse an alteration after which views would have to be rebuilt that cannot be."""
    for view in outdated:
        if reason := catalog.unfillable(view):
            raise Unsupported(what, detail=f'View "{view.name}" would have to be rebuilt. {reason}')
