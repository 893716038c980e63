"""Aggregates: what a call is, which type its value has, and whether sums are enough for it.

An aggregate whose value comes from sums (``algebra.relational.partial_sums``) costs the same for a row that leaves as
for one that arrives. All others look at the bag of values of their group, which is kept entry by entry
(``algebra.kernels.aggregates`` says what they make of it). Aggregates of several names in SQL have one name here.

============================================  ======================================================================
aggregate                                     value
============================================  ======================================================================
count, sum, avg                               as in SQL
bool_and, bool_or                             whether all, or some, of the values are true
var_pop, var_samp, stddev_pop, stddev_samp    the mean square of the distance from the mean, and its root
covar_pop, covar_samp, corr                   the same of two arguments
min, max                                      the least and the greatest value
min_by, max_by                                the argument where the other argument is least or greatest
array_agg                                     all values, ascending
string_agg                                    all values, joined by a separator, in the order asked for
mode                                          the value that comes most often, the least of several such
percentile_cont, percentile_disc              the value at a share of the way from the least to the greatest
============================================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.relational.ordering import SortOrder
from tidemill.algebra.values.decimals import bounded
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, STRING, Field, Type


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function`` (in lower case) over the rows of a group, with the name that its value gets.

    ``argument`` is None for COUNT(*), ``others`` are the arguments after it. ``distinct`` and ``filter`` are the
    clauses of those names, ``order`` is that of WITHIN GROUP (ORDER BY ...). ``parameters`` are constants that the
    function takes beside what it looks at, such as the separator of STRING_AGG.
    """

    name: str
    function: str
    argument: Scalar | None
    of: Type
    distinct: bool = False
    filter: Scalar | None = None
    others: tuple[Scalar, ...] = ()
    order: tuple[SortOrder, ...] = ()
    parameters: tuple[Any, ...] = ()

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """All expressions that the call looks at."""
        first = () if self.argument is None else (self.argument,)
        restriction = () if self.filter is None else (self.filter,)
        return (*first, *self.others, *(term.scalar for term in self.order), *restriction)

    def over(self, scalars: Iterator[Scalar]) -> AggregateCall:
        """The same call over other expressions, given in the order of ``scalars``."""
        return replace(
            self,
            argument=None if self.argument is None else next(scalars),
            others=tuple(next(scalars) for _ in self.others),
            order=tuple(replace(term, scalar=next(scalars)) for term in self.order),
            filter=None if self.filter is None else next(scalars),
        )

    @property
    def field(self) -> Field:
        """The column that this makes."""
        return Field(self.name, self.of, nullable=self.function not in NEVER_NULL)


NEVER_NULL = frozenset(("count", "array_agg"))
"""The aggregates that have a value over no rows, too."""

EXTREMES = frozenset(("min", "max"))
"""The aggregates that are found at an end of their bag."""

BY_OTHER = frozenset(("min_by", "max_by"))
"""The aggregates that pick a row by their second argument."""

VARIANCES = frozenset(("var_pop", "var_samp", "stddev_pop", "stddev_samp"))
"""The aggregates of squares."""

PAIRED = frozenset(("covar_pop", "covar_samp", "corr"))
"""The aggregates of products: they look at rows in which neither argument is NULL."""

SUMS = frozenset(("count", "sum", "avg", "bool_and", "bool_or", *VARIANCES, *PAIRED))
"""The aggregates that come from sums. All others need the bag of values that they look at, kept entry by entry."""

MULTISET_AGGREGATES = frozenset(
    (*EXTREMES, *BY_OTHER, "array_agg", "string_agg", "mode", "percentile_cont", "percentile_disc")
)
"""The aggregates over bags that are built in. One of another name is registered in ``totals``, and sees NULLs, too."""


def aggregate_type(function: str, argument: Type | None) -> Type:
    """The type of an aggregate over an argument of that type, None for COUNT(*).

    >>> str(aggregate_type("sum", t.Decimal(12, 2))), str(aggregate_type("avg", t.INT))
    ('DECIMAL(22,2)', 'DOUBLE')
    """
    match function, argument:
        case "count", _:
            return BIGINT
        case "min" | "max" | "min_by" | "max_by" | "mode", Type():
            return argument
        case "array_agg", Type():
            return t.Array(argument)
        case "string_agg", t.String():
            return STRING
        case "bool_and" | "bool_or", t.Boolean():
            return BOOLEAN
        case "bool_and" | "bool_or", _:
            raise TypeMismatch(f"{function.upper()} takes conditions, not {argument}")
        case "sum", t.Decimal(precision, scale):
            return bounded(precision + 10, scale)
        case "avg", t.Decimal(precision, scale):
            return bounded(precision + 4, scale + 4)
        case "sum", t.Int() | t.BigInt():
            return BIGINT
        case _, t.Int() | t.BigInt() | t.Double() | t.Decimal():
            return DOUBLE
    raise TypeMismatch(f"{function.upper()} takes numbers, not {argument}", hint="Convert the argument with CAST.")


def needs_multiset(call: AggregateCall) -> bool:
    """Whether sums are not enough for ``call``: the greatest value is gone when it is taken away, and what is next?"""
    return call.function not in SUMS


def known(call: AggregateCall) -> tuple[Scalar, ...]:
    """The arguments that must not be NULL in a row that ``call`` looks at."""
    if call.function in PAIRED:
        return (*(() if call.argument is None else (call.argument,)), *call.others)
    if call.function in BY_OTHER:
        return call.others
    return (call.argument,) if call.argument is not None and call.function in SUMS | MULTISET_AGGREGATES else ()


def bag(call: AggregateCall) -> tuple[tuple[Scalar, ...], Scalar | None]:
    """What the entries of the bag of ``call`` hold, and which rows are in it: NULLs are left out."""
    seen = call.scalars if call.filter is None else call.scalars[:-1]
    conditions = [] if call.filter is None else [call.filter]
    conditions += [Call("is_not_null", (scalar,), BOOLEAN) for scalar in known(call)]
    condition = conditions[0] if conditions else None
    for other in conditions[1:]:
        assert condition is not None
        condition = Call("and", (condition, other), BOOLEAN)
    return seen, condition
