"""Store copies of the relations (SC): every query is answered locally at once, so no update can interfere.

A notification leads from one state of the sources to the next, and the copies follow it exactly: the view goes through
every state, in order, for one source or several. The cost is local storage and the initial load. This maintainer holds
its copies as indexed Z-sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import Action, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.local_evaluation import IndexedRelations
from tidemill.sources.source import Position


class Copies:
    """The strategy SC of section 1.2 of the paper."""

    level = Level.COMPLETE

    def __init__(self, start: InitialView) -> None:
        self._view = start.view.query
        self._contents = IndexedRelations({name: start.contents[name] for name in start.view.relations})
        self._positions = dict(start.positions)

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Update the copies, and evaluate the change of the view over them."""
        self._positions[source] = position
        self._contents.apply(changes)
        return [InstallChange(self._contents.answer(self._view.after_all(changes)), dict(self._positions))]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Never called: no query is sent."""
        raise ValueError(f"answer {number} belongs to no open query")

    @property
    def idle(self) -> bool:
        """Always true: no query is ever unanswered."""
        return True
