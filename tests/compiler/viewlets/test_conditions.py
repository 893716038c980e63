"""Conditions on nested aggregates, simplified: true of the same sums, those over no rows included."""

from itertools import product

import pytest

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Scalar
from tidemill.algebra.text import text_of
from tidemill.compiler.viewlets.ring_calculus.conditions import plain
from tidemill.model.types import BIGINT, BOOLEAN

COUNT = Column("lift.count", BIGINT, nullable=False)
SUM = Column("lift.sum", BIGINT, nullable=False)
NOTHING = Call("eq", (COUNT, Literal(0, BIGINT)), BOOLEAN)

ALL_NUMBERS = [(0, 0), *product((1, 2), range(-4, 5))]
"""Counts with sums. Over no rows the sum is zero."""


def _number(value: int) -> Literal:
    return Literal(value, BIGINT)


def _values() -> list[Scalar]:
    sql_sum = Case(((NOTHING, Literal(None, BIGINT)),), SUM, BIGINT)
    wrapped = [call("coalesce", sql_sum, _number(other)) for other in (-2, 0, 3)]
    flags = [Case(((NOTHING, _number(one)),), _number(1 - one), BIGINT) for one in (0, 1)]
    sums = [Case(((NOTHING, _number(one)),), SUM, BIGINT) for one in (0, 3)]
    shifted = [call("add", value, _number(1)) for value in (sql_sum, *wrapped)]
    return [COUNT, SUM, sql_sum, *wrapped, *flags, *sums, *shifted]


def _conditions() -> list[Scalar]:
    tests = [call(test, value) for test in ("is_null", "is_not_null") for value in _values()]
    compared = product(("lt", "le", "gt", "ge", "eq", "ne"), _values(), (-1, 0, 1, 3))
    return tests + [call(name, value, _number(other)) for name, value, other in compared]


@pytest.mark.parametrize("negated", [False, True])
def test_true_of_the_same_numbers(negated: bool) -> None:
    for condition in _conditions():
        whole = call("not", condition) if negated else condition
        simpler = plain(whole)
        for count, total in ALL_NUMBERS:
            numbers = {"lift.count": count, "lift.sum": total}
            same = (evaluate_scalar(whole, numbers) is True) == (evaluate_scalar(simpler, numbers) is True)
            assert same, f"{text_of(whole)} became {text_of(simpler)}, which differs at {numbers}"
