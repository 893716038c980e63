"""Each aggregate, and how it comes from ring values: sums that deletions take back exactly.

A group keeps its weight (how many rows it has) and the sums of its *parts*. From these alone ``finish`` computes the
aggregate, so a deletion costs what an insertion costs. NULLs add nothing; how many values were not NULL is a part too,
unless the argument cannot be NULL: then the weight says it.

==========  ======================================  ===============================
aggregate   parts                                   value
==========  ======================================  ===============================
COUNT(*)    none                                    weight
COUNT(x)    n: 1 where x is not NULL                n
SUM(x)      s: x; n                                 s, NULL where n = 0
AVG(x)      s: x; n                                 s / n, NULL where n = 0
==========  ======================================  ===============================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.decimals import bounded
from tidemill.algebra.scalars import Call, Case, Cast, Literal, Scalar
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, Field, Type


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function`` (sum, count, avg; lower case) over the rows of a group, with the name that its value gets.

    ``argument`` is None for COUNT(*). ``distinct`` and ``filter`` are the clauses of those names.
    """

    name: str
    function: str
    argument: Scalar | None
    of: Type
    distinct: bool = False
    filter: Scalar | None = None

    @property
    def field(self) -> Field:
        """The column that this makes."""
        return Field(self.name, self.of, nullable=self.function != "count")


@dataclass(frozen=True, slots=True)
class Part:
    """A ring value: the sum of weight times ``argument`` over a group's rows, where a NULL adds nothing.

    ``of`` is BIGINT, DECIMAL(38, s) or DOUBLE: wide enough that the sum, unlike the argument, need not be checked.
    """

    argument: Scalar
    of: Type


def aggregate_type(function: str, argument: Type | None) -> Type:
    """The type of an aggregate over an argument of that type, None for COUNT(*).

    >>> str(aggregate_type("sum", t.Decimal(12, 2))), str(aggregate_type("avg", t.INT))
    ('DECIMAL(22,2)', 'DOUBLE')
    """
    match function, argument:
        case "count", _:
            return BIGINT
        case "sum", t.Decimal(precision, scale):
            return bounded(precision + 10, scale)
        case "avg", t.Decimal(precision, scale):
            return bounded(precision + 4, scale + 4)
        case "sum", t.Int() | t.BigInt():
            return BIGINT
        case _, t.Int() | t.BigInt() | t.Double():
            return DOUBLE
    raise TypeMismatch(f"{function.upper()} takes numbers, not {argument}", hint="Convert the argument with CAST.")


def parts(call: AggregateCall) -> tuple[Part, ...]:
    """The sums that ``call`` needs. Equal parts of several aggregates are one sum: AVG(x) beside SUM(x) is free."""
    if call.distinct:
        raise Unsupported(
            f"{call.function.upper()}(DISTINCT ...) is not supported yet",
            detail="It needs the weight of every value in a group, not only sums.",
            hint="Aggregate over a subquery with SELECT DISTINCT.",
        )
    count = _count_part(call)
    counts = (count,) if count else ()
    if call.function == "count":
        return counts
    assert call.argument is not None
    argument = call.argument
    match argument.type:
        case t.Int():
            summed = Part(_filtered(call, Cast(argument, BIGINT)), BIGINT)
        case t.BigInt() if call.function == "avg":
            # Spark averages in DOUBLE, which does not overflow; the exact sum must not either.
            summed = Part(_filtered(call, Cast(argument, t.Decimal(20, 0))), t.Decimal(t.MAX_PRECISION, 0))
        case t.Decimal(_, scale):
            summed = Part(_filtered(call, argument), t.Decimal(t.MAX_PRECISION, scale))
        case of:
            summed = Part(_filtered(call, argument), of)
    return (summed, *counts)


def finish(call: AggregateCall, parts: Sequence[Scalar], weight: Scalar) -> Scalar:
    """The value of ``call``, given expressions for its summed parts (as ``parts`` orders them) and for the weight."""
    if call.function == "count":
        return parts[0] if parts else weight
    total, count = parts[0], parts[1] if len(parts) > 1 else weight
    empty = Call("eq", (count, Literal(0, BIGINT)), BOOLEAN)
    return Case(((empty, Literal(None, call.of)),), _value(call, total, count), call.of)


def _value(call: AggregateCall, total: Scalar, count: Scalar) -> Scalar:
    """The value over at least one row."""
    assert call.argument is not None
    if isinstance(call.argument.type, t.Decimal):
        # The sum has a type of its own, narrower than the ring's; a sum that does not fit it is an error in Spark.
        total = Cast(total, bounded(call.argument.type.precision + 10, call.argument.type.scale))
    if call.function == "avg":
        return Call("average" if isinstance(call.of, t.Decimal) else "mean", (total, count), call.of)
    return Call("bigint_checked", (total,), BIGINT) if call.of == BIGINT else total


def _count_part(call: AggregateCall) -> Part | None:
    """How many values the aggregate sees; None where that is the weight itself."""
    from tidemill.algebra.walk import is_nullable  # walk knows relations, and these know aggregates

    seen = call.filter
    if call.argument is not None and is_nullable(call.argument):
        known = Call("is_not_null", (call.argument,), BOOLEAN)
        seen = known if seen is None else Call("and", (seen, known), BOOLEAN)
    if seen is None:
        return None
    return Part(Case(((seen, Literal(1, BIGINT)),), Literal(0, BIGINT), BIGINT), BIGINT)


def _filtered(call: AggregateCall, value: Scalar) -> Scalar:
    """``value`` where the FILTER clause is true, else NULL."""
    if call.filter is None:
        return value
    return Case(((call.filter, value),), Literal(None, value.type), value.type)
