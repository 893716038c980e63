"""What an algorithm for a view over autonomous sources is: a machine that eats messages and says what to do.

The events of section 3 of the ECA paper: ``updated`` is W_up, ``answered`` is W_ans. A protocol touches neither sources
nor storage. It returns what to ask and what to install, so that every interleaving can be tried in a test, and a
crash needs no care: what is not installed is forgotten, and the source delivers it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from tidemill.changes.zset import ZSet
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Position


class Level(IntEnum):
    """How right a view is while its source changes (section 3.1), weakest first. ``NONE`` promises nothing.

    Weak consistency and convergence do not imply each other; ``STRONG`` is consistency with convergence.
    """

    NONE = 0
    CONVERGENT = 1
    WEAK = 2
    CONSISTENT = 3
    STRONG = 4
    COMPLETE = 5


@dataclass(frozen=True)
class AskSource:
    """Send ``query`` to ``source``; the answer is told under ``number``, which the protocol chose."""

    number: int
    query: SignedQuery
    source: str = ""


@dataclass(frozen=True)
class InstallChange:
    """Add ``change`` to the rows of the view. It then shows the states ``positions`` of the sources."""

    change: ZSet
    positions: Mapping[str, Position]


Action = AskSource | InstallChange


@dataclass(frozen=True)
class InitialView:
    """What a keeper begins with: the view and its rows, which show the states ``positions`` of the sources.

    ``keys`` are the primary keys of relations that have one, ``homes`` tells which source a relation is in (the source
    ``""`` where it does not say), and ``contents`` are the relations themselves, which ``copies`` alone asks for.
    Relations are called here, and in the changes that a keeper is told, as the leaves of the view call them.
    """

    view: SpjView
    rows: ZSet
    positions: Mapping[str, Position] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, ZSet] = field(default_factory=dict)


class ViewMaintainer(Protocol):
    """One view, kept from an ``InitialView`` on. An ``InstallChange`` without a change says that its state is later."""

    level: Level

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """W_up: a source has committed changes of its relations (one update, or a batch)."""

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """W_ans: the answer to a query has come."""

    @property
    def idle(self) -> bool:
        """Whether all that was asked is answered and all that came is installed."""
