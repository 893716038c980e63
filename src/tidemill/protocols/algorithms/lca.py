"""The Lazy Compensating Algorithm, which section 5.2 of the paper sketches: one state of the view for each update.

Every update has questions of its own. The first is ``V<U>``. When an answer comes, the updates that it has seen too
early are known, and a question that makes up for them follows (``questions``); it is the update's own as well. When an
update has no question left, what was gathered for it is exactly V after it less V before it, and it is installed as
soon as all updates before it are. So the view goes through every state of the source, in order: complete consistency.
Queries of different updates are under way at the same time. The price is up to one round of messages for each relation
of the view where ECA has one, and answers that wait for those before them.
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
    """What an update does to the view, as far as it is known, and whether a question about it is under way."""

    positions: Mapping[str, Position]
    change: ZSet = field(default_factory=ZSet)
    asking: bool = False


class Lca:
    """The complete algorithm."""

    level = Level.COMPLETE

    def __init__(self, start: InitialView) -> None:
        self._view = start.view.query
        self._positions = dict(start.positions)
        self._numbers = count(1)
        self._updates: deque[_PendingUpdate] = deque()
        self._asked: dict[int, tuple[_PendingUpdate, LateAnsweredQuery]] = {}

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Ask what the update adds; the questions under way will have seen it."""
        self._positions[source] = position
        for _, question in self._asked.values():
            question.note_later_changes(changes)
        self._updates.append(_PendingUpdate(dict(self._positions)))
        return [*self._ask(self._updates[-1], self._view.after_all(changes), source), *self._settle()]

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Gather the answer, and ask for what makes up for the updates that it has seen too early."""
        update, question = self._asked.pop(number)
        update.change.update_by(rows)
        return [*self._ask(update, question.correction, source), *self._settle()]

    @property
    def idle(self) -> bool:
        """Whether all updates are installed."""
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
