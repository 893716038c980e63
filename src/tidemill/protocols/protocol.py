"""The interface of an algorithm that maintains a view over autonomous sources: a state machine driven by messages.

The events are those of section 3 of the ECA paper: ``updated`` is W_up, ``answered`` is W_ans. A protocol accesses
neither sources nor storage. It returns the queries to send and the changes to install, so tests can try every
interleaving, and a crash needs no recovery: what is not installed is dropped, and the source delivers it again.
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
    """Consistency of a view while its source changes (section 3.1), weakest first. ``NONE`` guarantees nothing.

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
    """Send ``query`` to ``source``; the answer carries ``number``, which the protocol chose."""

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
    """Initial state of a maintainer: the view and its rows, which show the states ``positions`` of the sources.

    ``keys`` are the primary keys of relations that have one, ``homes`` maps relations to sources (``""`` by default),
    and ``contents`` are the relations themselves, which only ``copies`` needs. Relations have the names that the leaves
    of the view use, here and in the changes that a maintainer receives.
    """

    view: SpjView
    rows: ZSet
    positions: Mapping[str, Position] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, ZSet] = field(default_factory=dict)


class ViewMaintainer(Protocol):
    """Maintains one view from an ``InitialView`` on. An ``InstallChange`` without rows only advances the positions."""

    level: Level

    def updated(self, changes: Mapping[str, ZSet], position: Position, source: str = "") -> Sequence[Action]:
        """W_up: a source has committed changes of its relations (one update, or a batch)."""

    def answered(self, number: int, rows: ZSet, position: Position, source: str = "") -> Sequence[Action]:
        """W_ans: the answer to a query has arrived."""

    @property
    def idle(self) -> bool:
        """True if all queries are answered and all updates are installed."""
