"""SWEEP, for views over several sources: what an update adds to the view is swept from source to source.

No source can answer a query about another, so the change of an update is built in *legs*. The first joins the changed
tuples with the other relations of their own source, each further leg takes the rows so far to the next source, which
joins them with its relations. Sources do not wait for each other: an answer may have seen updates that are told already
and wait here for their turn. They are known, and compensated here; where a source has one relation of the view, without
a message, and else by questions as in ``lca``, of which the one-source case is a sweep of one leg.

Updates take their turn in the order in which they are told, one at a time. What is installed for an update is the view
after it less the view before it, where *before* and *after* are states of all sources that this order leads through. So
the view goes through every one of these states: complete consistency, without keys.
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
    """A transaction that waits for its turn."""

    source: str
    changes: Mapping[str, ZSet]
    position: Position


@dataclass
class _ActiveSweep:
    """An update on its way: the legs that are left, and the rows that the present one has found."""

    update: _QueuedUpdate
    ahead: deque[SweepHop]
    rows: ZSet = field(default_factory=ZSet)


class Sweep:
    """SWEEP by Agrawal, El Abbadi, Singh and Yurek, for sources with any number of relations of the view."""

    level = Level.COMPLETE

    def __init__(self, start: InitialView) -> None:
        homes = {leaf.relation: start.homes.get(leaf.relation, "") for leaf in start.view.leaves}
        self._legs = {source: sweep_hops(source, start.view, homes) for source in set(homes.values())}
        self._positions = dict(start.positions)
        self._numbers = count(1)
        self._waiting: deque[_QueuedUpdate] = deque()
        self._turn: _ActiveSweep | None = None
        self._asked: dict[int, tuple[SweepHop, LateAnsweredQuery]] = {}  # one at most

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Let the update wait for its turn; the question under way will have seen it, if it went to its source."""
        self._waiting.append(_QueuedUpdate(source, changes, position))
        for leg, question in self._asked.values():
            if leg.source == source:
                question.note_later_changes(changes)
        return [] if self._asked else self._go_on()

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Gather the answer, and what makes up for the updates that it has seen too early."""
        if self._turn is None or number not in self._asked:
            raise ValueError(f"answer {number} to a question that nobody asked")
        leg, question = self._asked.pop(number)
        self._turn.rows.update_by(rows)
        return self._ask(self._turn, leg, question.correction) or self._go_on()

    @property
    def idle(self) -> bool:
        """Whether every update had its turn."""
        return self._turn is None

    def _go_on(self) -> Sequence[Action]:
        """Take legs, and turns, until something must be asked or nothing waits."""
        done: list[Action] = []
        while turn := self._turn or self._next():
            while turn.ahead:
                asked = self._leave(turn, turn.ahead.popleft())
                if asked:
                    return [*done, *asked]
            done.append(self._finish(turn))
        return done

    def _next(self) -> _ActiveSweep | None:
        if self._waiting:
            update = self._waiting.popleft()
            self._turn = _ActiveSweep(update, deque(self._legs.get(update.source, ())))
        return self._turn

    def _leave(self, turn: _ActiveSweep, leg: SweepHop) -> Sequence[Action]:
        """Go on a leg with the rows so far; what comes back gathers anew."""
        own = leg.source == turn.update.source
        query = leg.view.query.after_all(turn.update.changes) if own else leg.query_for(turn.rows)
        turn.rows = ZSet()
        seen = [update.changes for update in self._waiting if update.source == leg.source]
        return self._ask(turn, leg, query, seen)

    def _ask(
        self, turn: _ActiveSweep, leg: SweepHop, query: SignedQuery, seen: Sequence[Mapping[str, ZSet]] = ()
    ) -> Sequence[Action]:
        """Ask what must be asked; the source has ``seen`` these changes, and the query should not."""
        here, question = split_local(query)
        turn.rows.update_by(here)
        if question is None:
            return []
        for changes in seen:
            question.note_later_changes(changes)
        number = next(self._numbers)
        self._asked[number] = leg, question
        return [AskSource(number, question.query, leg.source)]

    def _finish(self, turn: _ActiveSweep) -> InstallChange:
        self._turn = None
        self._positions[turn.update.source] = turn.update.position
        return InstallChange(turn.rows, dict(self._positions))
