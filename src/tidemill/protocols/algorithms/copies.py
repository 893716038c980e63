"""Store copies of the relations (SC): every query is answered here, at once, so nothing can come in between.

A notification leads from one state of the sources to the next, and the copies follow it exactly: the view goes through
every state, in order, for one source or several. What it costs is storage here, and the first load. This keeper holds
its copies as Z-sets with indexes.
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
        """Change the copies, and ask them what that does to the view."""
        self._positions[source] = position
        self._contents.apply(changes)
        return [InstallChange(self._contents.answer(self._view.after_all(changes)), dict(self._positions))]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Nothing is ever asked."""
        raise ValueError(f"answer {number} to a question that nobody asked")

    @property
    def idle(self) -> bool:
        """Always: nothing is under way."""
        return True
