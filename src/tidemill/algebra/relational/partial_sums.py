"""How aggregates come from ring values: sums that deletions take back exactly.

A group keeps its weight (how many rows it has) and the sums of its *parts*. From these alone ``finish`` computes the
aggregate, so a deletion costs what an insertion costs. NULLs add nothing; how many values were not NULL is a part too,
unless the argument cannot be NULL: then the weight says it.

==============  ======================================  =================================================
aggregate       parts                                   value
==============  ======================================  =================================================
COUNT(*)        none                                    weight
COUNT(x)        n: 1 where x is not NULL                n
SUM(x)          s: x; n                                 s, NULL where n = 0
AVG(x)          s: x; n                                 s / n, NULL where n = 0
BOOL_AND(x)     f: 1 where x is false; n                f = 0, NULL where n = 0
BOOL_OR(x)      t: 1 where x is true; n                 t > 0, NULL where n = 0
VAR_POP(x)      x; x * x; n                             (sum of x * x - (sum of x) squared / n) / n
COVAR_POP(x,y)  x; y; x * y; n                          (sum of x * y - sum of x * sum of y / n) / n
==============  ======================================  =================================================

Spreads are those of the values as DOUBLE, as in Spark. Of values that lie close together, far away from zero, almost
all digits of the two terms cancel; so products are summed with what rounding takes from them, as a part of their own,
and sums are seen with both halves of their double-double: about 32 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar, is_nullable
from tidemill.algebra.relational.aggregates import PAIRED, SUMS, VARIANCES, AggregateCall, known
from tidemill.algebra.relational.walk import conjunction
from tidemill.algebra.values.decimals import bounded
from tidemill.model import types as t
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, Type

LOW = ".lo"
"""A DOUBLE sum has two halves. Expressions see the high one by the name of the sum, the low one with this suffix."""


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A ring value: the sum of weight times ``argument`` over a group's rows, where a NULL adds nothing.

    ``of`` is BIGINT, DECIMAL(38, s) or DOUBLE: wide enough that the sum, unlike the argument, need not be checked.
    """

    argument: Scalar
    of: Type


def parts(call: AggregateCall) -> tuple[PartialSum, ...]:
    """The sums that ``call`` needs. Equal parts of several aggregates are one sum: AVG(x) beside SUM(x) is free."""
    assert call.function in SUMS, f"{call.function} needs a bag"
    assert not call.distinct, "rewrites.distinct_aggregates has made plain aggregates of those over DISTINCT"
    count = _count_part(call)
    counts = (count,) if count else ()
    if call.function == "count":
        return counts
    if call.function in ("bool_and", "bool_or"):
        return (_decisive_part(call), *counts)
    if call.function in VARIANCES | PAIRED:
        return (*_product_parts(call), *counts)
    return (_summed_part(call), *counts)


def _summed_part(call: AggregateCall) -> PartialSum:
    """The values themselves, in a type in which their sum cannot overflow."""
    assert call.argument is not None
    argument = call.argument
    match argument.type:
        case t.Int():
            return PartialSum(_known(call, Cast(argument, BIGINT)), BIGINT)
        case t.BigInt() if call.function == "avg":
            # Spark averages in DOUBLE, which does not overflow; the exact sum must not either.
            return PartialSum(_known(call, Cast(argument, t.Decimal(20, 0))), t.Decimal(t.MAX_PRECISION, 0))
        case t.Decimal(_, scale):
            return PartialSum(_known(call, argument), t.Decimal(t.MAX_PRECISION, scale))
        case of:
            return PartialSum(_known(call, argument), of)


def _decisive_part(call: AggregateCall) -> PartialSum:
    """How many values are false (of BOOL_AND) or true: one decides."""
    assert call.argument is not None
    decides = call.argument if call.function == "bool_or" else Call("not", (call.argument,), BOOLEAN)
    return _counting([*_filters(call), decides])


def _product_parts(call: AggregateCall) -> tuple[PartialSum, ...]:
    """Sums of the arguments, and of their products: of the two, or of each with itself, too, for CORR."""
    arguments = _doubles(call)
    products = [(arguments[0], arguments[-1])]
    if call.function == "corr":
        products += [(argument, argument) for argument in arguments]
    sums = [_known(call, argument) for argument in arguments]
    for pair in products:
        sums += [_known(call, Call(name, pair, DOUBLE)) for name in ("multiply", "product_error")]
    return tuple(PartialSum(scalar, DOUBLE) for scalar in sums)


def _doubles(call: AggregateCall) -> list[Scalar]:
    assert call.argument is not None
    return [one if one.type == DOUBLE else Cast(one, DOUBLE) for one in (call.argument, *call.others)]


def finish(call: AggregateCall, parts: Sequence[Scalar], weight: Scalar) -> Scalar:
    """The value of ``call``, given expressions for its summed parts (as ``parts`` orders them) and for the weight."""
    if call.function == "count":
        return parts[0] if parts else weight
    summed = _summed(call)
    sums, count = parts[:summed], parts[summed] if len(parts) > summed else weight
    value = _spread(call, sums, count) if call.function in VARIANCES | PAIRED else _value(call, sums[0], count)
    return _unless(_equal(count, 0), value, call.of)


def _summed(call: AggregateCall) -> int:
    """How many parts come before the count."""
    return {**dict.fromkeys(VARIANCES, 3), **dict.fromkeys(PAIRED, 4), "corr": 8}.get(call.function, 1)


def _value(call: AggregateCall, total: Scalar, count: Scalar) -> Scalar:
    """The value over at least one row."""
    assert call.argument is not None
    if call.function in ("bool_and", "bool_or"):
        nobody = _equal(total, 0)
        return nobody if call.function == "bool_and" else Call("not", (nobody,), BOOLEAN)
    if isinstance(call.argument.type, t.Decimal):
        # The sum has a type of its own, narrower than the ring's; a sum that does not fit it is an error in Spark.
        total = Cast(total, bounded(call.argument.type.precision + 10, call.argument.type.scale))
    if call.function == "avg":
        return Call("average" if isinstance(call.of, t.Decimal) else "mean", (total, count), call.of)
    return Call("bigint_checked", (total,), BIGINT) if call.of == BIGINT else total


def _spread(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    """A variance, covariance or correlation over at least one row; those of a sample need two."""
    if call.function == "corr":
        one, other, *products = sums
        return _correlation(one, other, products, count)
    one, other = (sums[0], sums[0]) if call.function in VARIANCES else (sums[0], sums[1])
    deviation = _deviation(one, other, sums[-2:], count)
    if call.function.endswith("_samp"):
        rows = Call("subtract", (count, Literal(1, BIGINT)), BIGINT)
        variance = _unless(_equal(count, 1), Call("mean", (deviation, rows), DOUBLE), DOUBLE)
    else:
        variance = Call("mean", (deviation, count), DOUBLE)
    return Call("sqrt", (variance,), DOUBLE) if call.function.startswith("stddev") else variance


def _correlation(one: Scalar, other: Scalar, products: Sequence[Scalar], count: Scalar) -> Scalar:
    both = _deviation(one, other, products[0:2], count)
    alone = [_deviation(x, x, products[i : i + 2], count) for x, i in ((one, 2), (other, 4))]
    return _unless(_equal(count, 1), Call("correlation", (both, *alone), DOUBLE), DOUBLE)


def _deviation(one: Scalar, other: Scalar, products: Sequence[Scalar], count: Scalar) -> Scalar:
    """The sum of products of the distances of two arguments from their means."""
    halves = [half for total in (one, other, *products) for half in (total, _low(total))]
    deviation = Call("deviation", (count, *halves), DOUBLE)
    # What cancels may leave less than nothing, and no sum of squares is that.
    return Call("greatest", (deviation, Literal(0.0, DOUBLE)), DOUBLE) if one is other else deviation


def _low(total: Scalar) -> Scalar:
    """The low half of a DOUBLE sum; there is none where it is no sum but a value that was computed."""
    return Column(total.name + LOW, DOUBLE, nullable=False) if isinstance(total, Column) else Literal(0.0, DOUBLE)


# ------------------------------------------------------------------------------------------------------ rows and NULLs


def _count_part(call: AggregateCall) -> PartialSum | None:
    """How many values the aggregate sees; None where that is the weight itself."""
    conditions = [*_filters(call), *_knowns(call)]
    return _counting(conditions) if conditions else None


def _counting(conditions: Sequence[Scalar]) -> PartialSum:
    condition = conjunction(conditions)
    assert condition is not None
    return PartialSum(Case(((condition, Literal(1, BIGINT)),), Literal(0, BIGINT), BIGINT), BIGINT)


def _filters(call: AggregateCall) -> list[Scalar]:
    return [] if call.filter is None else [call.filter]


def _knowns(call: AggregateCall) -> list[Scalar]:
    return [Call("is_not_null", (scalar,), BOOLEAN) for scalar in known(call) if is_nullable(scalar)]


def _known(call: AggregateCall, value: Scalar) -> Scalar:
    """``value`` in rows that the aggregate looks at: with two arguments, those in which neither is NULL."""
    others = _knowns(call) if call.others else []
    conditions = [*_filters(call), *others]
    return _where(conditions, value) if conditions else value


def _where(conditions: Sequence[Scalar], value: Scalar) -> Scalar:
    condition = conjunction(conditions)
    assert condition is not None
    return Case(((condition, value),), Literal(None, value.type), value.type)


def _equal(count: Scalar, number: int) -> Scalar:
    return Call("eq", (count, Literal(number, BIGINT)), BOOLEAN)


def _unless(condition: Scalar, value: Scalar, of: Type) -> Scalar:
    return Case(((condition, Literal(None, of)),), value, of)
