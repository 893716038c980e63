"""Initial load of large tables of a source in ranges of a key, while changes go on.

The view over the keys up to a bound is a view like any other: it has one condition more. So it is maintained by ECA
over a source that stands still while it is asked (``protocols.batched_source``), and when nothing is unanswered the
rows of the next range are asked for. Their answer is of the state that the rows so far show, so they may be added up,
and the bound moves on. No query reads more than a range, nothing is locked, and rows that change meanwhile are neither
lost nor there twice. DBLog does the same with marks that it writes to the database; here answers and changes have one
order anyway.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.changes.zset import ZSet
from tidemill.engine.catalog.views.remote_subplans import MaintainedSubplan
from tidemill.engine.remote.initial_load import in_source_names
from tidemill.model import types as t
from tidemill.model.errors import SourceSlow
from tidemill.protocols.algorithms.eca import Eca
from tidemill.protocols.batched_source import BatchedSource
from tidemill.protocols.protocol import Action, AskSource, InitialView, InstallChange
from tidemill.sources.remote_queries.group_sums import add_groups
from tidemill.sources.remote_queries.signed_query import SignedQuery, SpjView
from tidemill.sources.source import Answered, Committed, Position, Source

__all__ = ["ChunkedLoad", "LoadProgress"]

CHUNK_ROWS = 50_000
"""Rows of a table up to which it is read by one query, and in a range of its key if it has more."""


@dataclass
class LoadProgress:
    """Progress of the first load of a view, in rows of the tables that are read in ranges."""

    total: int = 0
    rows: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float | None:
        """Rows a second; None before the first range."""
        return self.rows / max(time.monotonic() - self.began, 1e-9) if self.rows else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all rows are there, at the present rate."""
        return (self.total - self.rows) / self.rate if self.rate else None


@dataclass(frozen=True)
class _KeyRange:
    """Keys above ``low``, up to ``high``; None is no bound. It has about so many ``rows``."""

    low: int | None
    high: int | None
    rows: int


class _Region:
    """A subplan over the keys that are loaded by now, and the ranges that are left."""

    def __init__(self, kept: MaintainedSubplan, key: Column | None, ranges: Sequence[_KeyRange]) -> None:
        self.kept = kept
        self.rows = ZSet()
        self.asked: dict[int, int] = {}
        self.maintainer: Eca | None = None
        self._key = key
        self._left = list(ranges)
        self.parts = len(self._left)

    @property
    def unloaded(self) -> bool:
        return bool(self._left)

    def query(self) -> SignedQuery:
        """The query for the next range."""
        return self._within(self._left[0].low, self._left[0].high).query

    def loaded(self, rows: ZSet, position: Mapping[str, Position]) -> int:
        """Add the rows of the range that was asked for; returns about how many rows of its table it has."""
        done = self._left.pop(0)
        self.rows.update_by(rows)
        self.maintainer = Eca(InitialView(self._within(None, done.high), ZSet(), position))
        return done.rows

    def _within(self, low: int | None, high: int | None) -> SpjView:
        product = self.kept.subplan.product
        bounds: list[Scalar] = []
        for function, bound in (("gt", low), ("le", high)):
            if bound is not None and self._key is not None:
                bounds.append(call(function, self._key, Literal(bound, t.BIGINT)))
        return replace(product, conditions=(*product.conditions, *bounds))


class ChunkedLoad:
    """The first rows of the subplans of a view over one source, all of one state of it."""

    def __init__(
        self, subplans: Sequence[MaintainedSubplan], name: str, source: Source, progress: LoadProgress
    ) -> None:
        self._name = name
        self._source = source
        self._progress = progress
        self._numbers: dict[int, _Region] = {}
        self._regions = [self._region(kept) for kept in subplans]

    def _region(self, kept: MaintainedSubplan) -> _Region:
        """A subplan with the ranges of the largest of its tables that has a key of one integer."""
        own = len(self._name) + 1
        found = [(self._source.key_range(leaf[own:], name), column) for leaf, name, column in _integer_keys(kept)]
        known = [(keys, column) for keys, column in found if keys is not None]
        if not known:
            return _Region(kept, None, [_KeyRange(None, None, 0)])
        (low, high, rows), key = max(known, key=lambda one: one[0][2])
        self._progress.total += rows
        return _Region(kept, key, list(_ranges(low, high, rows)))

    @property
    def is_worth_it(self) -> bool:
        """True if some table is read in several ranges."""
        return any(region.parts > 1 for region in self._regions)

    def fetch(self, deadline: float) -> tuple[dict[str, ZSet], Position]:
        """The rows of each subplan, and the state that they show."""
        position = self._source.start(None)
        heard = BatchedSource(self._source, position)
        while not self._done:
            waiting = [region for region in self._regions if region.unloaded]
            if waiting and not self._numbers and self._is_idle:
                asked = heard.ask(in_source_names(waiting[0].query(), self._name))
                self._numbers[asked] = waiting[0]
            message = heard.receive(0.1)
            if message is not None:
                position = message.position
                self._take(heard, message)
            elif time.monotonic() > deadline:
                raise SourceSlow(
                    f'the rows of a view over "{self._name}" did not come in time',
                    detail=f"About {self._progress.rows:,} of {self._progress.total:,} rows are there.",
                    hint="Create the view while the source has less to do.",
                )
        # What was received and not delivered yet is told again.
        self._source.start(position)
        return {one.kept.subplan.name: _normal(one) for one in self._regions}, position

    @property
    def _is_idle(self) -> bool:
        return all(one.maintainer is None or one.maintainer.idle for one in self._regions)

    @property
    def _done(self) -> bool:
        return self._is_idle and not self._numbers and not any(one.unloaded for one in self._regions)

    def _take(self, heard: BatchedSource, message: Committed | Answered) -> None:
        if isinstance(message, Committed):
            changes = {f"{self._name}.{name}": rows for name, rows in message.changes.items()}
            for region in self._regions:
                if region.maintainer is not None:
                    self._do(heard, region, region.maintainer.updated(changes, message.position, self._name))
        elif message.number in self._numbers:
            region = self._numbers.pop(message.number)
            self._progress.rows += region.loaded(message.rows, {self._name: message.position})
        else:
            region = next(one for one in self._regions if message.number in one.asked)
            assert region.maintainer is not None
            number = region.asked.pop(message.number)
            answered = region.maintainer.answered(number, message.rows, message.position, self._name)
            self._do(heard, region, answered)

    def _do(self, heard: BatchedSource, region: _Region, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case AskSource(number=number, query=query):
                    region.asked[heard.ask(in_source_names(query, self._name))] = number
                case InstallChange(change=change):
                    region.rows.update_by(change)


def _integer_keys(kept: MaintainedSubplan) -> Iterator[tuple[str, str, Column]]:
    """The tables whose primary key is one integer, the key's name, and the key as a column of the subplan."""
    for leaf in kept.subplan.product.leaves:
        key = kept.keys.get(leaf.relation, ())
        for shown, declared in zip(leaf.fields, leaf.columns, strict=True):
            if (declared.name,) == key and isinstance(declared.type, t.Integral):
                yield leaf.relation, declared.name, Column(shown.name, shown.type, shown.nullable)


def _ranges(low: int, high: int, rows: int) -> Iterator[_KeyRange]:
    """Ranges of about ``CHUNK_ROWS`` rows; the first and the last have no bound, for keys that come meanwhile.

    >>> [(one.low, one.high, one.rows) for one in _ranges(1, 100_000, 100_000)]
    [(None, 50000, 50000), (50000, None, 50000)]
    """
    parts = max(1, math.ceil(rows / CHUNK_ROWS))
    bounds = [low + (high - low + 1) * part // parts - 1 for part in range(1, parts)]
    for below, above in zip([None, *bounds], [*bounds, None], strict=True):
        yield _KeyRange(below, above, rows // parts)


def _normal(region: _Region) -> ZSet:
    product = region.kept.subplan.product
    return add_groups(region.rows.items(), len(product.outputs)) if product.sums else region.rows
