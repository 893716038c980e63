"""SWEEP, for views over several sources: the change of an update is joined with one source after the other.

No source can answer a query about another, so the change of an update is computed in *hops*. The first joins the
changed tuples with the other relations of their own source; each further hop sends the rows so far to the next source,
which joins them with its relations. Sources are not synchronized: an answer may have seen updates that are already
received and queued here. They are known, and compensated here: without a message if the source has only one relation of
the view, and else by queries as in ``lca``, which is a sweep of one hop over one source.

Updates are handled one at a time, in the order of arrival. The change installed for an update is the view after it less
the view before it, where *before* and *after* are states of all sources in that order. So the view goes through every
one of these states: complete consistency, without keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tidemill.changes.zset import ZSet
from tidemill.protocols.algorithms.sweep_hops import SweepHop, sweep_hops
from tidemill.protocols.compensation.late_answers import LateAnsweredQuery, split_local
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange, Level
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Position


@dataclass(frozen=True)
class _QueuedUpdate:
    """A transaction of a source that waits in the queue."""

    source: str
    changes: Mapping[str, ZSet]
    position: Position


@dataclass
class _ActiveSweep:
    """The update being handled: its remaining hops, and the rows that the current hop has found."""

    update: _QueuedUpdate
    remaining: deque[SweepHop]
    rows: ZSet = field(default_factory=ZSet)


class Sweep:
    """SWEEP by Agrawal, El Abbadi, Singh and Yurek, for sources with any number of relations of the view."""

    level = Level.COMPLETE

    def __init__(self, start: InitialView) -> None:
        homes = {leaf.relation: start.homes.get(leaf.relation, "") for leaf in start.view.leaves}
        self._hops = {source: sweep_hops(source, start.view, homes) for source in set(homes.values())}
        self._positions = dict(start.positions)
        self._numbers = count(1)
        self._waiting: deque[_QueuedUpdate] = deque()
        self._turn: _ActiveSweep | None = None
        self._asked: dict[int, tuple[SweepHop, LateAnsweredQuery]] = {}  # one at most

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Queue the update; the unanswered query will have seen it, if it went to the same source."""
        self._waiting.append(_QueuedUpdate(source, changes, position))
        for hop, question in self._asked.values():
            if hop.source == source:
                question.note_later_changes(changes)
        return [] if self._asked else self._go_on()

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Collect the answer, and the compensation for the updates that it has seen too early."""
        if self._turn is None or number not in self._asked:
            raise ValueError(f"answer {number} belongs to no open query")
        hop, question = self._asked.pop(number)
        self._turn.rows.update_by(rows)
        return self._ask(self._turn, hop, question.correction) or self._go_on()

    @property
    def idle(self) -> bool:
        """True if every update is installed."""
        return self._turn is None

    def _go_on(self) -> Sequence[Action]:
        """Process hops and queued updates until a query must be sent or the queue is empty."""
        done: list[Action] = []
        while turn := self._turn or self._next():
            while turn.remaining:
                asked = self._leave(turn, turn.remaining.popleft())
                if asked:
                    return [*done, *asked]
            done.append(self._finish(turn))
        return done

    def _next(self) -> _ActiveSweep | None:
        if self._waiting:
            update = self._waiting.popleft()
            self._turn = _ActiveSweep(update, deque(self._hops.get(update.source, ())))
        return self._turn

    def _leave(self, turn: _ActiveSweep, hop: SweepHop) -> Sequence[Action]:
        """Start a hop with the rows so far, and collect its result from empty."""
        own = hop.source == turn.update.source
        query = hop.view.query.after_all(turn.update.changes) if own else hop.query_for(turn.rows)
        turn.rows = ZSet()
        seen = [update.changes for update in self._waiting if update.source == hop.source]
        return self._ask(turn, hop, query, seen)

    def _ask(
        self, turn: _ActiveSweep, hop: SweepHop, query: SignedQuery, seen: Sequence[Mapping[str, ZSet]] = ()
    ) -> Sequence[Action]:
        """Evaluate ``query`` locally as far as possible and send the rest; ``seen`` changes are to be compensated."""
        here, question = split_local(query)
        turn.rows.update_by(here)
        if question is None:
            return []
        for changes in seen:
            question.note_later_changes(changes)
        number = next(self._numbers)
        self._asked[number] = hop, question
        return [AskSource(number, question.query, hop.source)]

    def _finish(self, turn: _ActiveSweep) -> InstallChange:
        self._turn = None
        self._positions[turn.update.source] = turn.update.position
        return InstallChange(turn.rows, dict(self._positions))
