"""The meaning of a pattern by exhaustive search over all assignments of rows, the preferred one first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidemill.algebra.relational.match import WITHIN, Match, Navigation
from tidemill.algebra.relational.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternVariable,
    Repetition,
    RowPattern,
)

HIDDEN = "-"
"""At the end of the variable of a row that is excluded from the output."""

Taken = tuple[tuple[int, str], ...]
"""Row numbers and the variables that they are taken for."""

Next = Callable[[Taken], Sequence[int]]
"""The rows that may be taken next."""


class Brute:
    """Ways to match ``match.pattern``. Rows are tuples of one number, x; conditions are Python functions."""

    def __init__(self, match: Match, rows: Sequence[int | None], holds: dict[str, Callable[[Any], bool]]) -> None:
        self.match = match
        self.rows = rows
        self.holds = holds
        self._start = 0

    def ways(self, following: Next) -> Iterator[Taken]:
        """Every complete way, the best one first."""
        return self._ways(self.match.pattern, (), following)

    def _ways(self, pattern: RowPattern, taken: Taken, following: Next) -> Iterator[Taken]:
        match pattern:
            case PatternVariable(name):
                for row in following(taken):
                    if self.can(taken, row, name):
                        yield (*taken, (row, name))
            case Concatenation(items):
                if not items:
                    yield taken
                else:
                    for first in self._ways(items[0], taken, following):
                        yield from self._ways(Concatenation(items[1:]), first, following)
            case Alternation(options):
                for option in options:
                    yield from self._ways(option, taken, following)
            case Repetition():
                yield from self._times(pattern, taken, following, 0)
            case Anchor(end=end):
                if self._start + len(taken) == (len(self.rows) if end else 0):
                    yield taken
            case Exclusion(item):
                for way in self._ways(item, taken, following):
                    yield (*taken, *((row, name.rstrip(HIDDEN) + HIDDEN) for row, name in way[len(taken) :]))

    def _times(self, pattern: Repetition, taken: Taken, following: Next, times: int) -> Iterator[Taken]:
        if times >= pattern.least and pattern.reluctant:
            yield taken
        if pattern.most is None or times < pattern.most:
            for once in self._ways(pattern.item, taken, following):
                if once != taken or times < pattern.least:
                    yield from self._times(pattern, once, following, times + 1)
        if times >= pattern.least and not pattern.reluctant:
            yield taken

    def can(self, taken: Taken, row: int, name: str) -> bool:
        """Whether a row can be taken for a variable after others."""
        now = (*taken, (row, name))
        values = {look.name: self.value(look, taken if look.earlier else now) for look in self.match.navigations}
        if taken and WITHIN in self.holds and not self.holds[WITHIN](values):
            return False
        return name not in self.holds or self.holds[name](values)

    def value(self, look: Navigation, taken: Taken) -> Any:
        """What a look reads."""
        rows = [row for row, name in taken if look.sees(name.rstrip(HIDDEN))]
        if look.function == "classifier":
            return taken[-1][1].rstrip(HIDDEN).upper() if taken else None
        values = [self._at(row + look.step) for row in rows]
        known = [value for value in values if value is not None]
        known = list(dict.fromkeys(known)) if look.distinct else known
        match look.function:
            case "first":
                return values[look.offset] if len(values) > look.offset else None
            case "last":
                return values[-1 - look.offset] if len(values) > look.offset else None
            case "count":
                return len(rows) if look.argument is None else len(known)
            case "sum":
                return sum(known) if known else None
            case "var_pop":
                return statistics.pvariance(map(float, known)) if known else None
            case "stddev_samp":
                return statistics.stdev(map(float, known)) if len(known) > 1 else None
            case "min":
                return min(known, default=None)
            case "max":
                return max(known, default=None)
        raise AssertionError(look)

    def _at(self, row: int) -> int | None:
        return self.rows[row] if 0 <= row < len(self.rows) else None

    def measured(self, taken: Taken) -> tuple[Any, ...]:
        """What the measures read."""
        return tuple(self.value(look, taken) for look in self.match.measures)

    # ------------------------------------------------------------------------------------------------- what comes out

    def contiguous(self, start: int) -> tuple[list[Taken], bool]:
        """The ways that take each row from ``start`` on, and whether one could go on if there were more rows."""
        goes_on, self._start = False, start

        def following(taken: Taken) -> Sequence[int]:
            nonlocal goes_on
            row = start + len(taken)
            goes_on |= row == len(self.rows)
            return [row] if row < len(self.rows) else []

        return list(self.ways(following)), goes_on

    def one_per_match(self) -> list[tuple[int, tuple[Any, ...]]]:
        """ONE ROW PER MATCH, AFTER MATCH SKIP PAST LAST ROW."""
        found, start = [], 0
        while start < len(self.rows):
            best = next(iter(self.contiguous(start)[0]), None)
            if best is not None:
                found.append((best[-1][0] if best else start, self.measured(best)))
            start = best[-1][0] + 1 if best else start + 1
        return found

    def all_rows(self) -> list[tuple[int, tuple[Any, ...]]]:
        """ALL ROWS PER MATCH, AFTER MATCH SKIP PAST LAST ROW, with the empty matches and unmatched rows that it has."""
        found: list[tuple[int, tuple[Any, ...]]] = []
        start = 0
        while start < len(self.rows):
            best = next(iter(self.contiguous(start)[0]), None)
            if best is None and self.match.unmatched:
                found.append((start, (None,) * len(self.match.measures)))
            elif best == () and not self.match.omits_empty:
                found.append((start, self.measured(())))
            for place, (row, name) in enumerate(best or ()):
                found += [] if name.endswith(HIDDEN) else [(row, self.measured((best or ())[: place + 1]))]
            start = best[-1][0] + 1 if best else start + 1
        return found

    def each(self, *, everywhere: bool = False) -> list[tuple[int, tuple[Any, ...]]]:
        """A row whenever the pattern is complete, of runs that begin at every row or one after the other."""
        found, start = [], 0
        while start < len(self.rows):
            best: dict[int, Taken] = {}
            ways, goes_on = self.contiguous(start)
            for way in ways:
                if way:
                    best.setdefault(way[-1][0], way)
            found += [(row, self.measured(way)) for row, way in best.items()]
            if goes_on and not everywhere:
                break
            start = max(best) + 1 if best and not everywhere else start + 1
        return found

    def next_rows(self) -> list[int]:
        """The rows that complete the pattern, where rows that cannot be taken are passed over."""
        room = Brute(self.match, [0] * (len(self.rows) + 3), {})
        words = {tuple(name for _, name in way) for way in room.contiguous(0)[0]}
        begun = {word[:length] for word in words for length in range(len(word) + 1)}
        found, start = [], 0
        while start < len(self.rows):
            runs: list[Taken] = [()]
            last = None
            for row in range(start, len(self.rows)):
                went = [self._taken(run, row, begun) or ([run] if run else []) for run in runs]
                runs = list(dict.fromkeys(run for some in went for run in some))
                if any(run[-1][0] == row and tuple(name for _, name in run) in words for run in runs):
                    found.append(row)
                    last = row
                runs = [run for run in runs if any(len(word) > len(run) for word in begun if _extends(word, run))]
            if runs:
                break
            start = start + 1 if last is None else last + 1
        return found

    def _taken(self, run: Taken, row: int, begun: set[tuple[str, ...]]) -> list[Taken]:
        names = tuple(name for _, name in run)
        return [(*run, (row, name)) for name in "abc" if (*names, name) in begun and self.can(run, row, name)]

    def any_rows(self) -> list[tuple[int, tuple[Any, ...]]]:
        """The same where any row may be passed over."""

        def following(taken: Taken) -> Sequence[int]:
            return range(taken[-1][0] + 1 if taken else 0, len(self.rows))

        best: dict[tuple[int, ...], Taken] = {}
        for way in self.ways(following):
            if way:
                best.setdefault(tuple(row for row, _ in way), way)
        return [(rows[-1], self.measured(way)) for rows, way in best.items()]


def _extends(word: tuple[str, ...], run: Taken) -> bool:
    return word[: len(run)] == tuple(name for _, name in run)
