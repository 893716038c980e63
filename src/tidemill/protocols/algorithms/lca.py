"""The Lazy Compensating Algorithm, which section 5.2 of the paper sketches: one state of the view for each update.

Every update has its own queries. The first is ``V<U>``. When an answer arrives, the updates that it has seen too early
are known, and a query that compensates for them follows (``late_answers``), which also belongs to the update. When an
update has no unanswered query, the rows collected for it are exactly V after it less V before it, and they are
installed once all earlier updates are. So the view goes through every state of the source, in order: complete
consistency. Queries of different updates run concurrently. The price is up to one message exchange for each relation of
the view where ECA has one, and answers that wait for earlier ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.compensation.late_answers import LateAnsweredQuery, split_local
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Position


@dataclass
class _PendingUpdate:
    """Change of the view by one update, as far as it is known; ``asking`` while a query for it is unanswered."""

    positions: Mapping[str, Position]
    change: ZSet = field(default_factory=ZSet)
    asking: bool = False


class Lca:
    """The Lazy Compensating Algorithm; complete."""

    level = Level.COMPLETE

    def __init__(self, start: InitialView) -> None:
        self._view = start.view.query
        self._positions = dict(start.positions)
        self._numbers = count(1)
        self._updates: deque[_PendingUpdate] = deque()
        self._asked: dict[int, tuple[_PendingUpdate, LateAnsweredQuery]] = {}

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Query what the update adds; the unanswered queries will have seen it."""
        self._positions[source] = position
        for _, question in self._asked.values():
            question.note_later_changes(changes)
        self._updates.append(_PendingUpdate(dict(self._positions)))
        return [*self._ask(self._updates[-1], self._view.after_all(changes), source), *self._settle()]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Collect the answer, and query the compensation for the updates that it has seen too early."""
        update, question = self._asked.pop(number)
        update.change.update_by(rows)
        return [*self._ask(update, question.correction, source), *self._settle()]

    @property
    def idle(self) -> bool:
        """True if all updates are installed."""
        return not self._updates

    def _ask(self, update: _PendingUpdate, query: SignedQuery, source: str) -> Sequence[Action]:
        here, question = split_local(query)
        update.change.update_by(here)
        update.asking = question is not None
        if question is None:
            return []
        number = next(self._numbers)
        self._asked[number] = update, question
        return [AskSource(number, question.query, source)]

    def _settle(self) -> Sequence[Action]:
        done: list[Action] = []
        while self._updates and not self._updates[0].asking:
            update = self._updates.popleft()
            done.append(InstallChange(update.change, update.positions))
        return done
