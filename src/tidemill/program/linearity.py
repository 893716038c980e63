"""Linearity: the relations that a query may read as unmerged changes.

A stored map is a log of changes: the numbers of a key are the sum of its changes. A query that multiplies each amount
by exactly one number of a map gives the same for the changes as for their sum, so the map need never be consolidated.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.model.schema import WEIGHT
from tidemill.program.statements import ArrayLoop, MapRead, MapSeek, Query, Range, RelationLoop


def scalars_of(query: Query) -> Iterator[Scalar]:
    """Every expression of a query: of its steps in order, then its outputs."""
    yield from query.filters
    for step in query.sources:
        yield from (key for _, key in step.lookup)
        match step:
            case MapRead(range=Range(lower=lower, upper=upper)) | RelationLoop(range=Range(lower=lower, upper=upper)):
                yield from (bound.scalar for bound in (lower, upper) if bound is not None)
            case MapSeek(condition=condition):
                yield condition
            case ArrayLoop(array=array):
                yield array
        yield from step.filters
    yield from (output.scalar for output in query.outputs)
    if query.weight is not None:
        yield query.weight


def is_linear(query: Query, source: RelationLoop, keys: int) -> bool:
    """True if ``query`` is linear in the weight and the values of ``source``; its first ``keys`` outputs are keys."""
    numbers = {f"{source.alias}.{name}" for name in (WEIGHT, *(value.name for value in source.values))}
    values = [output.scalar for output in query.outputs[keys:]]
    amounts = values if query.weight is None else [query.weight, *values]
    others = [scalar for scalar in scalars_of(query) if all(scalar is not amount for amount in amounts)]
    if any(columns_in(scalar) & numbers for scalar in others):
        return False
    # Without a weight of its own, the query multiplies its amounts by the weight of every source.
    degree = 0 if query.weight is None else 1
    return all(_is_nothing(amount) or _degree(amount, numbers) == degree for amount in amounts)


def _degree(scalar: Scalar, numbers: set[str]) -> int | None:
    """The number of ``numbers`` that each term of an amount is multiplied by; None if unknown.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.model.types import BIGINT
    >>> a, b = Column("m.a", BIGINT), Column("n.b", BIGINT)
    >>> _degree(call("ring_product", a, b), {"m.a"}), _degree(call("ring_sum", a, b), {"m.a"})
    (1, None)
    """
    match scalar:
        case Column(name=name) if name in numbers:
            return 1
        case Call(function="ring_product", arguments=(left, right)):
            degrees = _degree(left, numbers), _degree(right, numbers)
            return None if None in degrees else sum(filter(None, degrees))
        case Call(function="ring_sum", arguments=(left, right)):
            found = {_degree(part, numbers) for part in (left, right) if not _is_nothing(part)}
            return found.pop() if len(found) == 1 else None
    return None if columns_in(scalar) & numbers else 0


def _is_nothing(scalar: Scalar) -> bool:
    """True if an amount is the constant zero, which is of every degree."""
    return isinstance(scalar, Literal) and not scalar.value
