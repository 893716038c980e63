"""Patterns over parts: the search stands at the last row of each part, and goes on from there.

What an epoch adds at the end of a part is read, and nothing else: the cost does not grow with the rows before it. Where
it changes something earlier, the search is taken up again at the last mark before that place, as the rows were and as
they are, and the difference comes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.algebra.matching.search import MatchedRows, Matcher, SearchCheckpoint
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.partitions import OutputRowOf, PartitionOutput
from tidemill.runtimes.native.operators.retractable import ValuesOf
from tidemill.runtimes.native.state.maps import RowMap
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, OrderedGroup, SortKey, SortKeyOf


@dataclass(frozen=True, slots=True)
class CompiledMatch:
    """A matcher, what it looks at in a row, and how many rows before and after a row it looks.

    ``counts`` says that what comes out for a match depends on how many there are before it.
    """

    matcher: Matcher
    seen: ValuesOf
    back: int
    ahead: int
    counts: bool


class NumberedRows:
    """The rows of one side of a part, by numbers. ``place`` is where row ``first`` stands, or would stand.

    Rows are fetched when they are asked for, in both directions from there.
    """

    def __init__(self, side: GroupVersion, place: SortKey | None, span: tuple[int, int, int], seen: ValuesOf) -> None:
        self.begin, self._first, self.end = span
        self._side = side
        self._before = place
        self._ahead = side.ascending(place)
        self._seen = seen
        self._rows: list[Row] = []
        self._looked: dict[int, Row] = {}

    def seen(self, number: int) -> Row:
        """What is looked at in a row."""
        if number not in self._looked:
            self._looked[number] = self._seen(self.row(number))
        return self._looked[number]

    def row(self, number: int) -> Row:
        """The row itself."""
        if number < self._first:
            self._fetch(number)
        while number >= self._first + len(self._rows):
            place, weight = next(self._ahead)
            self._rows += [place[-1]] * weight
        return self._rows[number - self._first]

    def _fetch(self, number: int) -> None:
        """Take in rows before those at hand, twice as many each time, so that going back row by row is cheap."""
        wanted = max(self._first - number, len(self._rows))
        earlier: list[Row] = []
        for place, weight in self._side.descending(self._before):
            earlier += [place[-1]] * weight
            self._before = place
            if len(earlier) >= wanted:
                break
        self._first -= len(earlier)
        self._rows[:0] = reversed(earlier)


@dataclass
class MatchState:
    """Where the search stands in a part: at marks, the last of them after its ``last`` place.

    Rows are numbered from ``begin`` on: where a row has come or gone in their midst, those after it keep their numbers.
    ``moved`` are the entries that have moved since, with their weights then and now: the marks are good for a part that
    was as it was then.
    """

    marks: list[SearchCheckpoint]
    begin: int
    last: SortKey
    moved: dict[Row, tuple[int, int]] = field(default_factory=dict)

    def matches_old(self, pile: OrderedGroup) -> bool:
        """Whether this is about the part as it was before the epoch."""
        moved = {key: old for key, (old, new) in self.moved.items() if old != new}
        return moved == {place[-1]: old[0] for place, old, _ in pile.changed}

    def parted(self, row: int) -> list[SearchCheckpoint]:
        """The marks that depend on rows before ``row`` alone stay; the others are given."""
        first = bisect_right(self.marks, row, key=lambda mark: mark.read)
        others = self.marks[first:]
        del self.marks[first:]
        return others


class MatchStateIndex:
    """Follows the map of rows: what has moved in a part since the search has stood at its end."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: dict[Row, MatchState] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Entries have come that were not there."""
        if self._parts:
            for key, weight in entries:
                self.move(key, None, weight)

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """An entry has another weight; one below zero is nowhere yet."""
        part = self._parts.get(key[: self._width])
        if part is not None:
            then = part.moved[key][0] if key in part.moved else max(old or 0, 0)
            part.moved[key] = (then, max(new or 0, 0))

    def taken(self, prefix: Row) -> MatchState | None:
        """Where the search stands in a part, if it does. It stands there no more: a condition may fail on the way."""
        return self._parts.pop(prefix, None)

    def put(self, prefix: Row, standing: MatchState) -> None:
        """Let the search stand in a part."""
        self._parts[prefix] = standing


class MatchOutput(PartitionOutput):
    """The rows at which rows of a part match a pattern, followed by what is measured."""

    def __init__(
        self, source: str, width: int, place_of: SortKeyOf, shown: OutputRowOf, recognizer: CompiledMatch
    ) -> None:
        super().__init__(source, width, place_of, shown)
        self._recognizer = recognizer
        self._matcher = recognizer.matcher

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """What the touched parts give now less what they gave before."""
        net = ZSet()
        held = maps[self.source]
        standings = self._standings(held)
        for prefix, pile in self._piles(held).moved(held.touched()):
            if pile.changed:
                self._go_on(prefix, pile, standings, net)
        return self._out(net)

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """What all parts give."""
        rows = ZSet()
        held = maps[self.source]
        standings = self._standings(held)
        for pile in self._piles(held).all():
            last, _ = next(pile.now.descending())
            standing = MatchState([self._matcher.begin()], 0, last)
            self._add(self._excerpt(pile.now, None, 0), standing.marks, 1, rows)
            standings.put(last[-1][: self._width], standing)
        return self._out(rows)

    def _standings(self, held: RowMap) -> MatchStateIndex:
        return held.states(self, lambda: MatchStateIndex(self._width))

    def _go_on(self, prefix: Row, pile: OrderedGroup, standings: MatchStateIndex, net: ZSet) -> None:
        """Add to ``net`` by how much the rows of a part are others now."""
        standing = standings.taken(prefix)
        place = pile.changed[0][0]
        if standing is None or not standing.matches_old(pile):
            standing = MatchState([self._matcher.begin()], 0, place)
            self._again(pile, standing, net)
        elif place > standing.last and not self._recognizer.ahead:
            self._append(pile, standing, net)
        else:
            self._again(pile, standing, net)
        last = next(pile.now.descending(), None)
        if last is not None:
            standing.last = last[0]
            standing.moved = {}
            standings.put(prefix, standing)

    def _append(self, pile: OrderedGroup, standing: MatchState, net: ZSet) -> None:
        """Rows have come after all others: these are read, and others only where a run comes to nothing."""
        first, place = standing.marks[-1].read, pile.changed[0][0]
        come = sum(new[0] for _, _, new in pile.changed)
        if self._matcher.waits:
            before = NumberedRows(pile.before, place, (standing.begin, first, first), self._recognizer.seen)
            self._add(before, standing.marks[-1:], -1, net)
        now = NumberedRows(pile.now, place, (standing.begin, first, first + come), self._recognizer.seen)
        self._add(now, standing.marks, 1, net)

    def _again(self, pile: OrderedGroup, standing: MatchState, net: ZSet) -> None:
        """Read from the last mark before the change on, as the rows were and as they are, until both go on alike."""
        begin, (place, _, _) = standing.begin, pile.changed[0]
        # Before the first changed place nothing is different, but a look ahead from there may see what is.
        others = standing.parted(begin + pile.now.sums(place)[0] - self._recognizer.ahead)
        standing.marks = standing.marks or [self._matcher.begin(begin)]
        after, distance = self._after(pile, begin)
        meeting = [mark for mark in others if mark.search.is_fresh and mark.search.start >= after]
        starts = {mark.search.start for mark in meeting if not self._recognizer.counts}
        mark = standing.marks[-1]
        now, before = self._excerpt(pile.now, place, begin), self._excerpt(pile.before, place, begin)
        met = self._add(now, standing.marks, 1, net, {start + distance for start in starts})
        if met is None:
            self._add(before, [mark], -1, net)
        else:
            start = met.search.start - distance
            self._add(before, [mark], -1, net, {start})
            self._join(standing, met, [other for other in others if other.search.start >= start], distance)

    def _after(self, pile: OrderedGroup, begin: int) -> tuple[int, int]:
        """The first row that sees no change, by its old number, and how much larger its number would be now."""
        place, old, new = pile.changed[-1]
        was, now = pile.before.sums(place)[0] + old[0], pile.now.sums(place)[0] + new[0]
        return begin + was + self._recognizer.back, now - was

    def _join(self, standing: MatchState, met: SearchCheckpoint, others: list[SearchCheckpoint], distance: int) -> None:
        """The search has met an old one: from there on all marks are good, and rows have their old numbers."""
        if distance:
            fresh = [mark for mark in standing.marks if mark.search.is_fresh]
            standing.marks = [self._matcher.moved(mark, -distance) for mark in fresh]
            standing.begin -= distance
            met = self._matcher.moved(met, -distance)
        standing.marks.append(met)
        later = [mark for mark in others if mark.search.at > met.search.at]
        standing.marks += [mark for mark in later if mark.read >= met.read]

    def _excerpt(self, side: GroupVersion, place: SortKey | None, begin: int) -> NumberedRows:
        """The rows of a side, of which the first has number ``begin``, fetched from ``place`` on."""
        first = begin if place is None else begin + side.sums(place)[0]
        return NumberedRows(side, place, (begin, first, begin + side.sums()[0]), self._recognizer.seen)

    def _add(
        self, rows: NumberedRows, marks: list[SearchCheckpoint], times: int, net: ZSet, until: Container[int] = ()
    ) -> SearchCheckpoint | None:
        """Add to ``net`` what comes out from the last of ``marks`` on, so many times, and go on with the marks.

        Where the search has begun afresh at a row of ``until``, it ends there and is given.
        """
        found: MatchedRows = []
        start = marks[-1]
        if len(marks) > 1 and start.read < marks[-2].read + self._matcher.every:
            marks.pop()  # it was the end, and is too close to the mark before it to be kept as one
        mark = self._matcher.advance(start, rows, found, marks, until)
        met = mark.search.start in until and mark.search.is_fresh
        if not met:
            self._matcher.finish(mark, rows, found)
            marks.append(mark)
        for number, values in found:
            net.add(rows.row(number) + values, times)
        return mark if met else None

    def _take(self, part: GroupVersion, times: int, net: ZSet) -> None:
        self._add(self._excerpt(part, None, 0), [self._matcher.begin()], times, net)
