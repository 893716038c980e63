"""One view in the place of another: built first, and swapped in one commit.

Whatever fails on the way, a query that cannot be maintained, a row that it cannot take, an interrupt, the old view is
as it was. The store has not changed until the commit, so memory is read anew from there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidemill.engine.catalog.shared_stages import share_stages
from tidemill.engine.epochs.transaction import REVERTIBLE_ERRORS
from tidemill.engine.partitions.retention import require_bounded, retained_rows
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.engine.catalog.view import View
    from tidemill.engine.engine import Engine

__all__ = ["replace_view", "require_not_replacing"]


def replace_view(engine: Engine, view: View) -> None:
    """Put a view in the place of the one of its name, which nobody else may read."""
    with engine.source_views.alone(view.name), engine.settled():
        engine.require_writable()
        old = engine.catalog.view(view.name)
        _require_replaceable(engine, view)
        pending = retained_rows(engine, view)
        try:
            with engine.changing_catalog() as catalog, engine.publisher.ending(view.name):
                left, dropped = engine.remove_from_catalog(catalog, view.name)
                engine.release(view.name, dropped)
                require_bounded(catalog, view)
                view = share_stages(view, catalog, engine.store)
                catalog.add(view)
                engine.fill(view, pending, left=left, dropped=dropped)
        except REVERTIBLE_ERRORS:
            engine.reload()  # what runtimes have under this name is of the new view
            raise
        engine.source_views.drop(old)


def _require_replaceable(engine: Engine, view: View) -> None:
    """Refuse what cannot be done in one commit."""
    engine.catalog.require_unread(view.name, "replaced")
    if view.cores:
        raise _unsupported(view, "Its first rows have to come from sources, and until then it would be empty.")


def require_not_replacing(view: View, replaced: Collection[str]) -> None:
    """Refuse to build a view in several commits where it has to take the place of another in one."""
    if replaced:
        raise _unsupported(view, "It reads tables that forget rows, and is built on Spark in several steps.")


def _unsupported(view: View, why: str) -> Unsupported:
    return Unsupported(
        f'"{view.name}" cannot be replaced in one step',
        detail=why,
        hint="Create it under another name, and drop the old one once the new one is there.",
    )
