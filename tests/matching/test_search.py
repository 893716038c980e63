"""The automaton against exhaustive search, for random patterns over a few rows, also resumed within a partition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.matching.brute import Brute
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Literal
from tidemill.algebra.matching.automaton import END, automaton_of
from tidemill.algebra.matching.partial_matches import ListedRows, navigations_read
from tidemill.algebra.matching.search import MatchedRows, Matcher
from tidemill.algebra.relational.match import (
    WITHIN,
    AfterMatch,
    Contiguity,
    Match,
    Navigation,
    RowsPerMatch,
    Skip,
)
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternVariable,
    Repetition,
    RowPattern,
    excludes_rows,
)
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, DOUBLE, STRING, Field

X = Column("x", BIGINT)
INPUT = Scan("t", "", (Field("x", BIGINT),))

MEASURES = (
    Navigation("n", "count", None, BIGINT),
    Navigation("named", "classifier", None, STRING),
    Navigation("of_b", "sum", X, BIGINT, ("b",)),
    Navigation("first_a", "first", X, BIGINT, ("a",)),
    Navigation("before_last", "last", X, BIGINT, offset=1),
    Navigation("least", "min", X, BIGINT),
)

MORE_MEASURES = (
    Navigation("different", "count", X, BIGINT, ("a", "b"), distinct=True),
    Navigation("sum_of_different", "sum", X, BIGINT, distinct=True),
    Navigation("variance", "var_pop", X, DOUBLE),
    Navigation("deviation", "stddev_samp", X, DOUBLE, ("b", "c")),
)

LOOKS = (
    Navigation("x", "last", X, BIGINT),
    Navigation("a.x", "last", X, BIGINT, ("a",)),
    Navigation("prev", "last", X, BIGINT, step=-1),
    Navigation("next", "last", X, BIGINT, step=1),
    Navigation("sum_b", "sum", X, BIGINT, ("b",)),
    Navigation("earlier", "max", X, BIGINT, earlier=True),
)

Holds = dict[str, Callable[[Any], bool]]


def both(name: str, other: object) -> tuple[Any, Callable[[Any], bool]]:
    """A condition as a scalar and as a function: the row tried is less than another value."""
    right = Literal(other, BIGINT) if isinstance(other, int) else Column(str(other), BIGINT)

    def holds(values: Any) -> bool:
        one, two = values[name], other if isinstance(other, int) else values[other]
        return one is not None and two is not None and one < two

    return call("lt", Column(name, BIGINT), right), holds


CONDITIONS = [
    both("x", 3),
    both("x", 2),
    both("a.x", "x"),
    both("x", "prev"),
    both("prev", "x"),
    both("x", "next"),
    both("sum_b", 6),
    both("x", "earlier"),
]


def draw_pattern(draw: random.Random, depth: int = 0) -> RowPattern:
    """A pattern over a, b and c."""
    if depth > 2 or draw.random() < 0.35:
        return PatternVariable(draw.choice("abc"))
    match draw.randrange(3):
        case 0:
            return Concatenation(tuple(draw_pattern(draw, depth + 1) for _ in range(draw.randint(2, 3))))
        case 1:
            return Alternation(tuple(draw_pattern(draw, depth + 1) for _ in range(2)))
    least, most = draw.choice([(0, None), (1, None), (0, 1), (1, 2), (2, None)])
    item = draw_pattern(draw, depth + 1)
    # Which of several ways to repeat nothing is the better one, no two dialects agree upon.
    return item if END in automaton_of(item).entry else Repetition(item, least, most, draw.random() < 0.3)


def draw_match(draw: random.Random, output: RowsPerMatch, skips: Contiguity, skip: Skip) -> tuple[Match, Holds]:
    """A match and its conditions as Python functions."""
    chosen = {name: draw.choice(CONDITIONS) for name in "abc" if draw.random() < 0.8}
    conditions = tuple((name, condition) for name, (condition, _) in chosen.items())
    match = Match(INPUT, (), (SortOrder(X),), draw_pattern(draw), conditions, LOOKS, MEASURES, output, skips, skip)
    return match, {name: holds for name, (_, holds) in chosen.items()}


def matcher_of(match: Match, holds: Holds) -> Matcher:
    """The machine, with the same Python functions."""

    def adapted(name: str) -> Callable[[Any], bool]:
        names = [match.navigations[number].name for number in navigations_read(match, name)]
        return lambda values: holds[name](dict(zip(names, values, strict=True)))

    return Matcher(match, {name: adapted(name) for name in holds})


def rows_of(draw: random.Random, most: int) -> list[int | None]:
    return [draw.choice([None, 0, 1, 1, 2, 3, 4]) for _ in range(draw.randint(0, most))]


CASES = [
    (RowsPerMatch.ONE, Contiguity.NONE, Skip(), 8, Brute.one_per_match),
    (RowsPerMatch.EACH, Contiguity.NONE, Skip(), 8, Brute.each),
    (RowsPerMatch.EACH, Contiguity.NONE, Skip(AfterMatch.NEXT), 8, lambda brute: brute.each(everywhere=True)),
    (RowsPerMatch.EACH, Contiguity.ANY, Skip(), 6, Brute.any_rows),
]


@pytest.mark.parametrize(("output", "skips", "skip", "most", "expected"), CASES)
def test_search_finds_what_trying_everything_does(
    output: RowsPerMatch, skips: Contiguity, skip: Skip, most: int, expected: Callable[[Brute], MatchedRows]
) -> None:
    draw = random.Random(f"{output} {skips} {skip}")
    found_any = 0
    for _ in range(600):
        match, holds = draw_match(draw, output, skips, skip)
        rows = rows_of(draw, most)
        found = matcher_of(match, holds).all(ListedRows([(x,) for x in rows]))
        wanted = expected(Brute(match, rows, holds))
        assert Counter(found) == Counter(wanted), (str(match.pattern), match.conditions, rows)
        found_any += len(found)
    assert found_any > 600


def draw_standard(draw: random.Random) -> RowPattern:
    """A pattern with anchors and excluded rows."""
    items: list[RowPattern] = [draw_pattern(draw) for _ in range(draw.randint(1, 2))]
    items = [Exclusion(item) if draw.random() < 0.3 else item for item in items]
    items += [Anchor(True)] if draw.random() < 0.4 else []
    items = [Anchor(False), *items] if draw.random() < 0.3 else items
    whole: RowPattern = Concatenation(tuple(items))
    return Alternation((whole, draw_pattern(draw))) if draw.random() < 0.3 else whole


def test_anchors_exclusion_within_and_unmatched_rows() -> None:
    """The best way to match is the same with all of them, also where a search is resumed."""
    draw = random.Random("standard")
    start = Navigation("start", "first", X, BIGINT)
    within = call("le", Column("x", BIGINT), Column("start", BIGINT))
    found_any = unmatched = hidden = 0
    for _ in range(1_500):
        match, holds = draw_match(draw, RowsPerMatch.ALL, Contiguity.NONE, Skip())
        shown = omits_empty, shows_unmatched = draw.choice([(False, False), (True, False), (False, True)])
        match = replace(match, pattern=draw_standard(draw), measures=(*MEASURES, *MORE_MEASURES))
        match = replace(match, omits_empty=omits_empty, unmatched=shows_unmatched)
        if draw.random() < 0.3:
            conditions = (*match.conditions, (WITHIN, within))
            match = replace(match, navigations=(*LOOKS, start), conditions=conditions)
            holds = {**holds, WITHIN: _falls}
        if match.reach[1]:
            match = replace(match, navigations=tuple(replace(one, step=min(one.step, 0)) for one in match.navigations))
        rows = rows_of(draw, 8)
        matcher = matcher_of(match, holds)
        wanted = Brute(match, rows, holds).all_rows()
        found = matcher.all(ListedRows([(x,) for x in rows]))
        assert _close(found) == _close(wanted), (str(match.pattern), match.conditions, rows, shown)
        again: MatchedRows = []
        mark = matcher.begin()
        for read in range(len(rows) + 1):
            mark = matcher.advance(mark, ListedRows([(x,) for x in rows[:read]]), again)
        matcher.finish(mark, ListedRows([(x,) for x in rows]), again)
        assert _close(again) == _close(wanted), (str(match.pattern), match.conditions, rows, shown)
        found_any += len(found)
        unmatched += sum(values[0] is None for _, values in found)
        hidden += excludes_rows(match.pattern) and bool(found)
    assert found_any > 1_000 and unmatched > 100 and hidden > 50


def _falls(values: Any) -> bool:
    """No row of the run is above the first one."""
    return None not in (values["x"], values["start"]) and values["x"] <= values["start"]


def _close(found: MatchedRows) -> Counter[Any]:
    """Rows whose deviations are rounded: the oracle computes these otherwise."""
    return Counter(
        (row, tuple(round(value, 9) if isinstance(value, float) else value for value in values))
        for row, values in found
    )


def draw_plain(draw: random.Random) -> RowPattern:
    """A few variables one after the other, each perhaps repeated."""
    counts = [(1, 1), (1, 1), (1, None), (0, None), (0, 1)]
    return Concatenation(
        tuple(Repetition(PatternVariable(name), *draw.choice(counts)) for name in "abc"[: draw.randint(2, 3)])
    )


def test_rows_that_cannot_be_taken_are_passed_over() -> None:
    draw = random.Random("next")
    rows_found = 0
    for _ in range(400):
        match, holds = draw_match(draw, RowsPerMatch.EACH, Contiguity.NEXT, Skip())
        match = replace(match, pattern=draw_plain(draw))
        rows = rows_of(draw, 7)
        found = [row for row, _ in matcher_of(match, holds).all(ListedRows([(x,) for x in rows]))]
        assert found == Brute(match, rows, holds).next_rows(), (str(match.pattern), match.conditions, rows)
        rows_found += len(found)
    assert rows_found > 400


def test_a_search_can_be_left_at_any_row_and_taken_up_again() -> None:
    draw = random.Random("again")
    for output, skips, skip, _, _ in CASES[:3] * 60:
        match, holds = draw_match(draw, output, skips, skip)
        if match.reach[1]:
            match = replace(match, navigations=tuple(replace(one, step=min(one.step, 0)) for one in match.navigations))
        matcher = matcher_of(match, holds)
        rows = [(x,) for x in rows_of(draw, 20)]
        found: MatchedRows = []
        mark = matcher.begin()
        for read in range(len(rows) + 1):
            mark = matcher.advance(mark, ListedRows(rows[:read]), found)
        matcher.finish(mark, ListedRows(rows), found)
        assert Counter(found) == Counter(matcher.all(ListedRows(rows)))


def test_a_long_fall_is_read_once_and_not_from_each_of_its_rows() -> None:
    navigations = (Navigation("x", "last", X, BIGINT), Navigation("prev", "last", X, BIGINT, step=-1))
    tried = 0

    def falls(values: Any) -> bool:
        nonlocal tried
        tried += 1
        return values[1] is not None and values[0] < values[1]

    down, up = Repetition(PatternVariable("down"), 1, None), Repetition(PatternVariable("up"), 1, None)
    less, more = (call(name, Column("x", BIGINT), Column("prev", BIGINT)) for name in ("lt", "gt"))
    match = Match(
        INPUT,
        (),
        (SortOrder(X),),
        Concatenation((PatternVariable("strt"), down, up)),
        (("down", less), ("up", more)),
        navigations,
        (),
        RowsPerMatch.ONE,
    )
    matcher = Matcher(match, {"down": falls, "up": lambda values: values[1] is not None and values[0] > values[1]})
    assert matcher.all(ListedRows([(x,) for x in range(2_000, 0, -1)])) == []
    assert tried < 3 * 2_000


def test_runs_without_number_are_refused() -> None:
    navigations = (Navigation("x", "last", X, BIGINT),)
    pattern = Concatenation((Repetition(PatternVariable("a"), 1, None), PatternVariable("b")))
    never = call("lt", Column("x", BIGINT), Literal(0, BIGINT))
    match = Match(
        INPUT, (), (SortOrder(X),), pattern, (("b", never),), navigations, (), RowsPerMatch.EACH, Contiguity.ANY
    )
    with pytest.raises(ArithmeticFault, match="more than 10,000 runs"):
        Matcher(match, {"b": lambda values: False}).all(ListedRows([(1,)] * 40))
