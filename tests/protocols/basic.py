"""The basic algorithm (5.1): ask ``V<U>`` for every update and add what comes. It goes wrong, as the paper shows.

The query is evaluated some time after the update, in a state that may have seen other updates, and nothing makes up for
that: examples 2 and 3 of the paper end with a view that is wrong for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Position


class Basic:
    """Algorithm 5.1 of the paper."""

    level = Level.NONE

    def __init__(self, start: InitialView) -> None:
        self.unanswered: dict[int, SignedQuery] = {}
        self._view = start.view.query
        self._positions = dict(start.positions)
        self._numbers = count(1)

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Ask for what the update adds, as if nothing else could happen meanwhile."""
        self._positions[source] = position
        query = self._view.after_all(changes)
        if not query.remote.terms:
            return [InstallChange(evaluate_locally(query), dict(self._positions))]
        number = next(self._numbers)
        self.unanswered[number] = query
        return [AskSource(number, query.remote, source)]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Add the answer to the view."""
        self._positions[source] = position
        return [InstallChange(rows + evaluate_locally(self.unanswered.pop(number)), dict(self._positions))]

    @property
    def idle(self) -> bool:
        """Whether every query is answered."""
        return not self.unanswered
