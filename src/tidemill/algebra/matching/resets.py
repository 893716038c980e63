"""Rows at which a search begins afresh, whatever came before: those that no variable can take, whichever run asks."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.expressions.conditions import conjunction, conjuncts, disjunction
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.matching.partial_matches import navigations_read
from tidemill.algebra.relational.match import Contiguity, Match
from tidemill.algebra.relational.row_patterns import anchors_in, variables_in
from tidemill.algebra.relational.walk import columns_in, substitute


def taken_rows(match: Match) -> Scalar | str:
    """A condition over the columns of a row without which no variable can take it; or the reason why there is none.

    Of a partition the rows up to the last one without it say nothing about what comes later, nor does their number.
    """
    if match.skips is not Contiguity.NONE:
        return "a run may pass over any row"
    if match.counts:
        return "MATCH_NUMBER counts all matches"
    if anchors_in(match.pattern):
        return "an anchor asks for the first or the last row"
    if match.reach != (0, 0):
        return "PREV and NEXT read rows beside those of a match"
    found: list[Scalar] = []
    for variable in variables_in(match.pattern):
        condition = conjunction(list(_own_conditions(match, variable)))
        if condition is None:
            return f"{variable} can be any row"
        found.append(condition)
    return disjunction(list(dict.fromkeys(found)))


def _own_conditions(match: Match, variable: str) -> Iterator[Scalar]:
    """The parts of a variable's condition that read the row that is tried, and nothing else."""
    condition = dict(match.conditions).get(variable)
    if condition is None:
        return
    values: dict[str, Scalar] = {}
    for navigation in (match.navigations[number] for number in navigations_read(match, variable)):
        is_own = navigation.function == "last" and not navigation.offset and not navigation.earlier
        if is_own and navigation.argument is not None and navigation.sees(variable):
            values[navigation.name] = navigation.argument
    for part in conjuncts(condition):
        if columns_in(part) <= values.keys():
            yield substitute(part, values)
