"""The deterministic automaton against the search, for random patterns and rows."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.matching.test_search import CONDITIONS, INPUT, LOOKS, MEASURES, X, draw_pattern, matcher_of, rows_of
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.matching.deterministic import START, DeterministicAutomaton, NotDeterministic, determinize
from tidemill.algebra.matching.partial_matches import ListedRows
from tidemill.algebra.matching.resets import taken_rows
from tidemill.algebra.relational.match import WITHIN, AfterMatch, Contiguity, Match, Navigation, RowsPerMatch, Skip
from tidemill.algebra.relational.row_patterns import Concatenation, PatternVariable, Repetition
from tidemill.algebra.relational.walk import walk
from tidemill.algebra.text import text_of
from tidemill.compiler.frontends.translate import translate
from tidemill.model.types import BIGINT, INT, STRING, TIMESTAMP, Field

ONE_ROW = [CONDITIONS[place] for place in (0, 1, 2, 3, 4)]
"""Conditions on the row that is tried and on the one before it; on the last of a, which may be that one."""

Run = tuple[tuple[int, str], ...]


def complete_runs(automaton: DeterministicAutomaton, rows: list[int | None]) -> list[tuple[int, Run]]:
    """The runs that come out, with the rows at which they do."""
    found: list[tuple[int, Run]] = []
    configuration, runs = 0, list[Run]()
    for number in range(len(rows)):
        near = {0: rows[number], -1: rows[number - 1] if number else None}
        values = {f"row {place}": near[read.step] for place, read in enumerate(automaton.reads)}
        held = [evaluate_scalar(condition, values) is True for condition in automaton.conditions]
        symbol = sum(1 << bit for bit, holds in enumerate(held) if holds)
        step = automaton.transitions[configuration][symbol]
        before: list[Run] = runs
        runs = [((before[place] if place != START else ()) + ((number, name),)) for place, name in step.runs]
        if automaton.at_end and step.prolongs:
            found.pop()
        if step.complete is not None:
            found.append((number, runs[step.complete]))
        configuration = step.configuration
    return found


@pytest.mark.parametrize("output", [RowsPerMatch.EACH, RowsPerMatch.ONE])
def test_rows_come_out_as_the_search_finds_them(output: RowsPerMatch) -> None:
    draw = random.Random(f"deterministic {output}")
    compared, found_any, runs = 0, 0, 0
    for _ in range(4_000):
        chosen = {name: draw.choice(ONE_ROW) for name in "abc" if draw.random() < 0.9}
        conditions = tuple((name, condition) for name, (condition, _) in chosen.items())
        match = Match(INPUT, (), (SortOrder(X),), draw_pattern(draw), conditions, LOOKS[:3], MEASURES, output)
        try:
            automaton = determinize(match)
        except NotDeterministic:
            continue
        rows = rows_of(draw, 16)
        wanted = matcher_of(match, {name: holds for name, (_, holds) in chosen.items()}).all(
            ListedRows([(x,) for x in rows])
        )
        found = complete_runs(automaton, rows)
        names = [(row, len(run), run[-1][1].upper()) for row, run in found]
        assert names == [(row, values[0], values[1]) for row, values in wanted], (str(match.pattern), conditions, rows)
        sums = [sum(rows[row] or 0 for row, name in run if name == "b") for _, run in found]
        assert sums == [values[2] or 0 for _, values in wanted]
        compared += 1
        found_any += len(found)
        runs = max(runs, automaton.most_runs)
    assert compared > 800 and found_any > 800 and runs > 2


HIGH = ONE_ROW[1][0]


def match_of(pattern: Any, names: str, **options: Any) -> Match:
    """A match of which some variables are high."""
    return Match(INPUT, (), (SortOrder(X),), pattern, tuple((name, HIGH) for name in names), LOOKS, (), **options)


def test_the_pattern_of_the_thesis_has_five_configurations() -> None:
    d = Repetition(PatternVariable("d"), 1, None)
    pattern = Concatenation((*map(PatternVariable, "abc"), d))
    automaton = determinize(match_of(pattern, "abcd"))
    assert len(automaton.conditions) == 1 and len(automaton.configurations) == 5
    assert automaton.most_runs == 3
    assert automaton.forgets(0) and not automaton.forgets(1)


A, B, C = map(PatternVariable, "abc")


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (match_of(A, "a", output=RowsPerMatch.ALL), "ALL ROWS PER MATCH"),
        (match_of(Repetition(A, 0, None), "a", output=RowsPerMatch.ONE), "empty matches"),
        (match_of(A, "a", output=RowsPerMatch.ONE, skip=Skip(AfterMatch.NEXT)), "AFTER MATCH SKIP TO NEXT ROW"),
        (match_of(A, "a", skips=Contiguity.NEXT), "SKIP TILL NEXT MATCH"),
        (match_of(A, "a", skip=Skip(AfterMatch.NEXT)), "runs from every row"),
        (replace(match_of(A, ""), conditions=((WITHIN, ONE_ROW[0][0]),)), "WITHIN"),
        (replace(match_of(A, ""), conditions=(("a", CONDITIONS[6][0]),)), "read other rows"),
        (match_of(Concatenation((A, Repetition(Concatenation((B, C)), 0, None))), "abc"), "outside of the match"),
        (replace(match_of(Repetition(Concatenation((A, A, B)), 1, 2), "a"), conditions=(("a", ONE_ROW[0][0]),
            ("b", CONDITIONS[3][0]))), "outside of the match"),
    ],
)  # fmt: skip
def test_other_patterns_have_none(match: Match, why: str) -> None:
    with pytest.raises(NotDeterministic, match=why):
        determinize(match)


def test_a_later_run_that_is_complete_first_is_left_to_the_search() -> None:
    navigations = (Navigation("x", "last", X, BIGINT),)
    from tidemill.algebra.relational.row_patterns import Alternation

    pattern = Alternation((Concatenation((A, B, C)), B))
    conditions = (("a", ONE_ROW[0][0]), ("b", ONE_ROW[1][0]))
    match = Match(INPUT, (), (SortOrder(X),), pattern, conditions, navigations, ())
    with pytest.raises(NotDeterministic, match="a later run"):
        determinize(match)


@pytest.mark.parametrize(
    ("clause", "read"),
    [
        ("PATTERN (a, b+) WHERE a.x > 3 AND b.x > a.x AND b.k = 'y' GROUP BY k", "s.x > 3 OR s.k = 'y'"),
        ("PATTERN (a, b+) WHERE a.x > 3 AND b.x > a.x GROUP BY k", "b can be any row"),
        ("PATTERN (a) SKIP TILL NEXT MATCH WHERE a.x > 3 GROUP BY k", "a run may pass over any row"),
        ("PATTERN (a, b) WHERE a.x > 3 AND b.x < PREV(b.x) GROUP BY k", "PREV and NEXT read rows beside"),
    ],
)
def test_rows_that_nothing_can_take(clause: str, read: str) -> None:
    fields = (Field("ts", TIMESTAMP), Field("k", STRING), Field("x", INT))
    relation = translate(f"SELECT ts FROM s {clause}", {"s": fields}, name="v").relation
    (match,) = (node for node in walk(relation) if isinstance(node, Match))
    found = taken_rows(match)
    assert read in (found if isinstance(found, str) else text_of(found))
