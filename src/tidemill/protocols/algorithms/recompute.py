"""Recompute the view (RV, algorithm D.1): query all of it after every ``period`` updates.

An answer is the view in one state of the source, and answers come in the order of these states, so the view is always
consistent. With a period of one the last update triggers a last answer and the view converges: strong consistency. With
a longer period up to ``period - 1`` updates at the end may never be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.source import Position


class Recompute:
    """Algorithm D.1 of the paper; ``period`` is its s."""

    def __init__(self, start: InitialView, period: int = 1) -> None:
        self.level = Level.STRONG if period == 1 else Level.CONSISTENT
        self.period = period
        self.count = 0
        self._view = start.view.query
        self._rows = start.rows
        self._positions = dict(start.positions)
        self._numbers = count(1)
        self._unanswered: set[int] = set()

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Count the update; query the view after every ``period`` updates."""
        self.count += 1
        if self.count < self.period:
            return []
        self.count = 0
        number = next(self._numbers)
        self._unanswered.add(number)
        return [AskSource(number, self._view, source)]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Replace the view by the answer."""
        self._unanswered.remove(number)
        self._positions[source] = position
        change, self._rows = rows - self._rows, rows
        return [InstallChange(change, dict(self._positions))]

    @property
    def idle(self) -> bool:
        """True if no update waits for the next query and no query is unanswered."""
        return not self._unanswered and not self.count
