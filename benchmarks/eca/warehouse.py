"""A warehouse of one view: its source, the maintainer that says what to do, and the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import AskSource, InitialView, InstallChange, ViewMaintainer
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Answered, Committed, Message


class Asked(Protocol):
    """What is needed of a source here."""

    def ask(self, query: SignedQuery) -> int:
        """Send a query; returns its number."""

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message."""


class Warehouse:
    """Takes messages one by one; ``rows`` is the view, and ``asked`` counts queries."""

    def __init__(self, source: Asked, start: InitialView, maintainer: ViewMaintainer) -> None:
        self.maintainer = maintainer
        self.rows = ZSet(start.rows)
        self.asked = 0
        self._source = source
        self._view = start.view
        self._numbers: dict[int, int] = {}

    def take(self, timeout: float = 0.0) -> Message | None:
        """Take in one message, if there is one, and do what follows from it."""
        message = self._source.receive(timeout)
        match message:
            case Committed(changes=changes, position=position):
                self._do(self.maintainer.updated(changes, position))
            case Answered(number=number, rows=rows, position=position) if number in self._numbers:
                self._do(self.maintainer.answered(self._numbers.pop(number), rows, position))
        return message

    def settle(self) -> None:
        """Take messages until the view shows all that the source has committed.

        A query for nothing is answered after everything that was committed before it.
        """
        mark: int | None = self._source.ask(SignedQuery(self._view, ()))
        while mark is not None or not self.maintainer.idle:
            message = self.take(timeout=5.0)
            if isinstance(message, Answered) and message.number == mark:
                mark = None

    def _do(self, actions: Sequence[AskSource | InstallChange]) -> None:
        for action in actions:
            if isinstance(action, AskSource):
                self.asked += 1
                self._numbers[self._source.ask(action.query)] = action.number
            else:
                self.rows.update_by(action.change)
