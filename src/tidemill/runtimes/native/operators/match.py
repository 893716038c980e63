"""MATCH_RECOGNIZE over partitions: the search resumes where it ended in each partition.

Only the rows that an epoch appends to a partition are read: the cost does not grow with the rows before them. If an
epoch changes something earlier, the search resumes at the last checkpoint before the change, over the old rows and over
the new ones, and the difference is output.
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
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, OrderedGroup, SortKey, SortKeyOf
from tidemill.runtimes.native.state.row_map import RowMap


@dataclass(frozen=True, slots=True)
class CompiledMatch:
    """A matcher, the function that gives the values of a row that it reads, and how many rows around a row it reads.

    ``counts``: the output of a match depends on the number of matches before it.
    """

    matcher: Matcher
    values_of: ValuesOf
    rows_before: int
    rows_after: int
    counts: bool


class NumberedRows:
    """The rows of one version of a partition, by number. ``sort_key`` is the position of row ``first``.

    Rows are fetched on demand, in both directions from there.
    """

    def __init__(
        self, side: GroupVersion, sort_key: SortKey | None, span: tuple[int, int, int], values_of: ValuesOf
    ) -> None:
        self.begin, self._first, self.end = span
        self._side = side
        self._before = sort_key
        self._after = side.ascending(sort_key)
        self._values_of = values_of
        self._rows: list[Row] = []
        self._values: dict[int, Row] = {}

    def seen(self, number: int) -> Row:
        """The values of a row that the pattern reads."""
        if number not in self._values:
            self._values[number] = self._values_of(self.row(number))
        return self._values[number]

    def row(self, number: int) -> Row:
        """The row itself."""
        if number < self._first:
            self._fetch(number)
        while number >= self._first + len(self._rows):
            sort_key, weight = next(self._after)
            self._rows += [sort_key[-1]] * weight
        return self._rows[number - self._first]

    def _fetch(self, number: int) -> None:
        """Fetch rows before those fetched so far, twice as many each time, so that going back row by row is cheap."""
        wanted = max(self._first - number, len(self._rows))
        earlier: list[Row] = []
        for sort_key, weight in self._side.descending(self._before):
            earlier += [sort_key[-1]] * weight
            self._before = sort_key
            if len(earlier) >= wanted:
                break
        self._first -= len(earlier)
        self._rows[:0] = reversed(earlier)


@dataclass
class MatchState:
    """The search in a partition: its checkpoints, of which the last one is after the sort key ``last``.

    Rows are numbered from ``begin`` on: when a row is inserted or deleted among them, those after it keep their
    numbers. ``moved`` are the entries that have changed since the search, with their weights then and now: the
    checkpoints are valid for the partition before these changes.
    """

    marks: list[SearchCheckpoint]
    begin: int
    last: SortKey
    moved: dict[Row, tuple[int, int]] = field(default_factory=dict)

    def matches_old(self, group: OrderedGroup) -> bool:
        """True if this is the search over the partition as it was before the epoch."""
        moved = {key: old for key, (old, new) in self.moved.items() if old != new}
        return moved == {sort_key[-1]: old[0] for sort_key, old, _ in group.changed}

    def parted(self, row: int) -> list[SearchCheckpoint]:
        """Remove and return the checkpoints that depend on ``row`` or later ones."""
        first = bisect_right(self.marks, row, key=lambda mark: mark.read)
        others = self.marks[first:]
        del self.marks[first:]
        return others


class MatchStateIndex:
    """Observes the map of rows: the entries of each partition that have changed since its search ended."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._states: dict[Row, MatchState] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Add entries that are new."""
        if self._states:
            for key, weight in entries:
                self.move(key, None, weight)

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Change the weight of an entry; one with a negative weight is in no partition yet."""
        partition = self._states.get(key[: self._width])
        if partition is not None:
            then = partition.moved[key][0] if key in partition.moved else max(old or 0, 0)
            partition.moved[key] = (then, max(new or 0, 0))

    def take(self, prefix: Row) -> MatchState | None:
        """Remove and return the search in a partition: a condition may fail before it is stored again."""
        return self._states.pop(prefix, None)

    def store(self, prefix: Row, state: MatchState) -> None:
        """Store the search in a partition."""
        self._states[prefix] = state


class MatchOutput(PartitionOutput):
    """The rows of a partition at which a match comes out, followed by its measures."""

    def __init__(
        self, source: str, width: int, sort_key_of: SortKeyOf, shown: OutputRowOf, compiled: CompiledMatch
    ) -> None:
        super().__init__(source, width, sort_key_of, shown)
        self._compiled = compiled
        self._matcher = compiled.matcher

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """The new rows of the touched partitions less the old ones."""
        net = ZSet()
        held = maps[self.source]
        states = self._states(held)
        for prefix, group in self._groups(held).changed_groups(held.touched()):
            if group.changed:
                self._resume(prefix, group, states, net)
        return self._out(net)

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of all partitions."""
        rows = ZSet()
        held = maps[self.source]
        states = self._states(held)
        for group in self._groups(held).all():
            last, _ = next(group.new.descending())
            state = MatchState([self._matcher.begin()], 0, last)
            self._add(self._numbered(group.new, None, 0), state.marks, 1, rows)
            states.store(last[-1][: self._width], state)
        return self._out(rows)

    def _states(self, held: RowMap) -> MatchStateIndex:
        return held.states(self, lambda: MatchStateIndex(self._width))

    def _resume(self, prefix: Row, group: OrderedGroup, states: MatchStateIndex, net: ZSet) -> None:
        """Add to ``net`` the change of the rows of a partition."""
        state = states.take(prefix)
        sort_key = group.changed[0][0]
        if state is None or not state.matches_old(group):
            state = MatchState([self._begin_before(group, sort_key)], 0, sort_key)
            self._rescan(group, state, net)
        elif sort_key > state.last and not self._compiled.rows_after:
            self._append(group, state, net)
        else:
            self._rescan(group, state, net)
        last = next(group.new.descending(), None)
        if last is not None:
            state.last = last[0]
            state.moved = {}
            states.store(prefix, state)

    def _begin_before(self, group: OrderedGroup, sort_key: SortKey) -> SearchCheckpoint:
        """A search from before the rows at ``sort_key``: after the last that ends all runs, or from the first."""
        before = group.new.sums(sort_key)[0]
        return self._matcher.last_reset(before, self._numbered(group.new, sort_key, 0)) or self._matcher.begin()

    def _append(self, group: OrderedGroup, state: MatchState, net: ZSet) -> None:
        """Read rows that were appended; earlier ones only where a partial match fails."""
        first, sort_key = state.marks[-1].read, group.changed[0][0]
        come = sum(new[0] for _, _, new in group.changed)
        if self._matcher.waits:
            before = NumberedRows(group.old, sort_key, (state.begin, first, first), self._compiled.values_of)
            self._add(before, state.marks[-1:], -1, net)
        now = NumberedRows(group.new, sort_key, (state.begin, first, first + come), self._compiled.values_of)
        self._add(now, state.marks, 1, net)

    def _rescan(self, group: OrderedGroup, state: MatchState, net: ZSet) -> None:
        """Read the old and the new rows from the last checkpoint before the change on, until both searches agree."""
        begin, (sort_key, _, _) = state.begin, group.changed[0]
        # Rows before the first change are the same, but navigation from there may reach changed ones.
        others = state.parted(begin + group.new.sums(sort_key)[0] - self._compiled.rows_after)
        state.marks = state.marks or [self._matcher.begin(begin)]
        after, distance = self._after(group, begin)
        meeting = [mark for mark in others if mark.search.is_fresh and mark.search.start >= after]
        starts = {mark.search.start for mark in meeting if not self._compiled.counts}
        mark = state.marks[-1]
        now, before = self._numbered(group.new, sort_key, begin), self._numbered(group.old, sort_key, begin)
        met = self._add(now, state.marks, 1, net, {start + distance for start in starts})
        if met is None:
            self._add(before, [mark], -1, net)
        else:
            start = met.search.start - distance
            self._add(before, [mark], -1, net, {start})
            self._join(state, met, [other for other in others if other.search.start >= start], distance)

    def _after(self, group: OrderedGroup, begin: int) -> tuple[int, int]:
        """The first row that reaches no change, by its old number, and the offset of its new number."""
        sort_key, old, new = group.changed[-1]
        was, now = group.old.sums(sort_key)[0] + old[0], group.new.sums(sort_key)[0] + new[0]
        return begin + was + self._compiled.rows_before, now - was

    def _join(self, state: MatchState, met: SearchCheckpoint, others: list[SearchCheckpoint], distance: int) -> None:
        """Continue with the old search at ``met``: later checkpoints stay, and rows keep their old numbers."""
        if distance:
            fresh = [mark for mark in state.marks if mark.search.is_fresh]
            state.marks = [self._matcher.moved(mark, -distance) for mark in fresh]
            state.begin -= distance
            met = self._matcher.moved(met, -distance)
        state.marks.append(met)
        later = [mark for mark in others if mark.search.at > met.search.at]
        state.marks += [mark for mark in later if mark.read >= met.read]

    def _numbered(self, side: GroupVersion, sort_key: SortKey | None, begin: int) -> NumberedRows:
        """The rows of a version, of which the first has number ``begin``, fetched from ``sort_key`` on."""
        first = begin if sort_key is None else begin + side.sums(sort_key)[0]
        return NumberedRows(side, sort_key, (begin, first, begin + side.sums()[0]), self._compiled.values_of)

    def _add(
        self, rows: NumberedRows, marks: list[SearchCheckpoint], times: int, net: ZSet, until: Container[int] = ()
    ) -> SearchCheckpoint | None:
        """Add to ``net`` the output after the last of ``marks``, with the weight ``times``, and append checkpoints.

        If the search starts afresh at a row of ``until``, it ends there and returns that checkpoint.
        """
        found: MatchedRows = []
        start = marks[-1]
        if len(marks) > 1 and start.read < marks[-2].read + self._matcher.every:
            marks.pop()  # it was the end, and is too close to the previous checkpoint to be kept
        mark = self._matcher.advance(start, rows, found, marks, until)
        met = mark.search.start in until and mark.search.is_fresh
        if not met:
            self._matcher.finish(mark, rows, found)
            marks.append(mark)
        for number, values in found:
            net.add(rows.row(number) + values, times)
        return mark if met else None

    def _take(self, partition: GroupVersion, times: int, net: ZSet) -> None:
        self._add(self._numbered(partition, None, 0), [self._matcher.begin()], times, net)
