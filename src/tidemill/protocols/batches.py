"""Batches (future work 2 of the paper): updates that arrive while a keeper waits go to it as one.

A query for k updates at once has the terms of a query for one, with all their tuples bound, where k queries would
compensate each other k times over. Nothing is slowed down by it: with nothing under way an update goes through at once,
and those that come during a query go as soon as its answer is here. They go *before* the answer, since the source
carried them out before it answered, and the keeper must know.

States between the updates of a batch are not shown, so a complete keeper is strongly consistent with batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import Action, Ask, Keeper, Level
from tidemill.sources.source import Position


class Batched:
    """A keeper that is told of up to ``most`` updates of a source as if they were one."""

    def __init__(self, keeper: Keeper, most: int = 1000) -> None:
        self.level = min(keeper.level, Level.STRONG)
        self._keeper = keeper
        self._most = most
        self._asked = 0
        self._source = ""
        self._count = 0
        self._changes: dict[str, ZSet] = {}
        self._position: Position = ""

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """Pass the update on, or add it to those that wait."""
        done = [] if source == self._source else [*self._flush()]
        for relation, change in changes.items():
            self._changes.setdefault(relation, ZSet()).update_by(change)
        self._source, self._position = source, position
        self._count += 1
        if not self._asked or self._count == self._most:
            done += self._flush()
        return done

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """Tell the keeper of all that came before the answer, and of the answer."""
        waited = self._flush()
        self._asked -= 1
        return [*waited, *self._counted(self._keeper.answered(number, rows, position, source))]

    @property
    def idle(self) -> bool:
        """Whether nothing waits, here or there."""
        return not self._count and self._keeper.idle

    def _flush(self) -> Sequence[Action]:
        if not self._count:
            return []
        changes, self._changes, self._count = self._changes, {}, 0
        return self._counted(self._keeper.updated(changes, self._position, self._source))

    def _counted(self, actions: Sequence[Action]) -> Sequence[Action]:
        self._asked += sum(isinstance(action, Ask) for action in actions)
        return actions
