"""Partial sums: the ring values that an aggregate is computed from, which deletions reverse exactly.

A group keeps its weight (its number of rows) and its partial sums. The aggregate is computed from these alone, so a
deletion costs the same as an insertion. NULLs add nothing; the number of values that are not NULL is a partial sum too,
unless the argument cannot be NULL: then it is the weight.

==============  ======================================  =================================================
aggregate       partial sums                            value
==============  ======================================  =================================================
COUNT(*)        none                                    weight
COUNT(x)        n: 1 where x is not NULL                n
SUM(x)          s: x; n                                 s, NULL where n = 0
AVG(x)          s: x; n                                 s / n, NULL where n = 0
BOOL_AND(x)     f: 1 where x is false; n                f = 0, NULL where n = 0
BOOL_OR(x)      t: 1 where x is true; n                 t > 0, NULL where n = 0
VAR_POP(x)      x; x * x; n                             (sum of x * x - (sum of x) squared / n) / n
COVAR_POP(x,y)  x; y; x * y; n                          (sum of x * y - sum of x * sum of y / n) / n
REGR_SXX(y,x)   x; x * x; n                             sum of x * x - (sum of x) squared / n
==============  ======================================  =================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Scalar, is_nullable
from tidemill.model.types import BIGINT, BOOLEAN, Type

LOW = ".lo"
"""A DOUBLE sum has two halves. Expressions see the high one by the name of the sum, the low one with this suffix."""


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A ring value: the sum of weight times ``argument`` over a group's rows, where a NULL adds nothing.

    ``of`` is BIGINT, DECIMAL(38, s) or DOUBLE: wide enough that the sum, unlike the argument, need not be checked.
    """

    argument: Scalar
    of: Type


@dataclass(frozen=True, slots=True)
class SumRule:
    """The rule by which an aggregate is computed from sums.

    ``parts``: the sums that it needs, besides the count of the rows that it sees. ``value``: the value over at least
    one row, from expressions for these sums and for the count; for an aggregate that is not NULL over no rows, also
    that over none. ``reads_low``: the value reads both halves of a DOUBLE sum (see ``LOW``).
    """

    parts: Callable[[AggregateCall], tuple[PartialSum, ...]]
    value: Callable[[AggregateCall, Sequence[Scalar], Scalar], Scalar]
    reads_low: bool = False


def where_seen(call: AggregateCall, value: Scalar) -> Scalar:
    """``value`` in rows that ``call`` aggregates: with several arguments, those in which none is NULL."""
    arguments = () if call.argument is None or not call.others else (call.argument, *call.others)
    conditions = [*filters(call), *not_null(arguments)]
    return _where(conditions, value) if conditions else value


def count_where(conditions: Sequence[Scalar]) -> PartialSum:
    """The number of rows for which all ``conditions`` are true; there is at least one condition."""
    condition = conjunction(conditions)
    assert condition is not None
    return PartialSum(Case(((condition, Literal(1, BIGINT)),), Literal(0, BIGINT), BIGINT), BIGINT)


def filters(call: AggregateCall) -> list[Scalar]:
    """The condition of FILTER, if there is one."""
    return [] if call.filter is None else [call.filter]


def not_null(scalars: Sequence[Scalar]) -> list[Scalar]:
    """A condition for each of ``scalars`` that can be NULL."""
    return [Call("is_not_null", (scalar,), BOOLEAN) for scalar in scalars if is_nullable(scalar)]


def _where(conditions: Sequence[Scalar], value: Scalar) -> Scalar:
    condition = conjunction(conditions)
    assert condition is not None
    return Case(((condition, value),), Literal(None, value.type), value.type)


def equals(count: Scalar, number: int) -> Scalar:
    """The condition that a count equals ``number``."""
    return Call("eq", (count, Literal(number, BIGINT)), BOOLEAN)


def unless(condition: Scalar, value: Scalar, of: Type) -> Scalar:
    """``value``, or NULL if ``condition`` is true."""
    return Case(((condition, Literal(None, of)),), value, of)
