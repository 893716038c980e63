"""EXPLAIN of a view with patterns: the automaton of each, and how it is searched."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.matching.deterministic import NotDeterministic, determinize
from tidemill.algebra.matching.text import AutomatonText
from tidemill.algebra.relational.match import Match
from tidemill.program.stages import PartitionEmission, Program

__all__ = ["matches_of", "pattern_facts"]


def matches_of(program: Program) -> Iterator[Match]:
    """The matches that the stages of a program keep."""
    for stage in program.stages:
        if isinstance(stage.finish, PartitionEmission) and isinstance(stage.finish.rows, Match):
            yield stage.finish.rows


def pattern_facts(program: Program) -> Iterator[tuple[str, str]]:
    """The automaton of each pattern, the conditions of its variables, and what a row costs."""
    matches = list(matches_of(program))
    for number, match in enumerate(matches, 1):
        text = AutomatonText(match)
        conditions = [f"{name}: {condition}" for name, condition in text.conditions()]
        lines = [f"{match.pattern}, {match.output.value}", "; ".join(text.steps()), *conditions, _searched(match)]
        yield f"pattern {number}" if len(matches) > 1 else "pattern", "\n".join(lines)


def _searched(match: Match) -> str:
    try:
        found = determinize(match)
    except NotDeterministic as reason:
        return f"runs are followed one by one: {reason}"
    count = len(found.configurations)
    return f"one step for each row: deterministic, {count} configurations of at most {found.most_runs} runs"
