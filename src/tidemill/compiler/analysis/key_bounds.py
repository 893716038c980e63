"""Keys that bound the rows which a query reads: conditions that fix all columns of a key to a few values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar
from tidemill.algebra.functions.function import USER_FUNCTION_MARK
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, OuterJoin, Scan
from tidemill.algebra.relational.walk import children, expressions, subqueries, walk
from tidemill.algebra.values.casts import cast_value
from tidemill.changes.zset import Row
from tidemill.compiler.analysis.failures import is_exact, may_fail
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault

Values = frozenset[Any]
Conditions = tuple[Scalar, ...]

MAX_KEYS = 10_000
"""Number of keys above which rows are better scanned than looked up."""

KEY_TYPES = (t.Boolean, t.Integral, t.Decimal, t.String, t.Date, t.Time, t.Timestamp)
"""Types whose values are equal in SQL exactly if they are equal in Python; NaN and the two zeros of DOUBLE are not."""

NO_VALUES: Mapping[str, Values] = {}


@dataclass(frozen=True, slots=True)
class BoundedScan:
    """A scan, and the keys of the rows that can contribute to the query; None if its conditions do not fix a key."""

    scan: Scan
    keys: frozenset[Row] | None


def key_bounds(
    relation: Relation, keys: Mapping[str, Sequence[str]], known: Mapping[str, Values] = NO_VALUES
) -> list[BoundedScan]:
    """Each scan in ``relation`` of a table or view that has a key, with the keys of the rows that it needs.

    ``keys`` are the key columns of each of them, ``known`` the values that columns of other scans can have: rows that
    were found already bound those that they are joined with. Only rows under these keys can change the answer. A
    condition counts if none before it can fail, since a row that is not read cannot make it fail. Filters should be at
    the scans (``push_down_filters``).

    >>> from tidemill.model.types import BIGINT, BOOLEAN, Field
    >>> scan = Scan("t", "t", (Field("id", BIGINT), Field("n", BIGINT)))
    >>> seven = Call("eq", (Column("t.id", BIGINT), Literal(7, BIGINT)), BOOLEAN)
    >>> [sorted(bounded.keys) for bounded in key_bounds(Filter(scan, seven), {"t": ["id"]})]
    [[(7,)]]
    """
    return [
        BoundedScan(scan, _keys(scan, keys[scan.relation], conditions, known))
        for scan, conditions in _scans(relation, ())
        if scan.relation in keys
    ]


def _scans(node: Relation, above: Conditions) -> Iterator[tuple[Scan, Conditions]]:
    """Every scan, with the conditions without which its rows contribute nothing."""
    match node:
        case Scan():
            yield node, above
        case Filter(input=input_, condition=condition):
            yield from _scans(input_, (*conjuncts(condition), *above))
        case Join(left=left, right=right):
            own = () if node.condition is None else tuple(conjuncts(node.condition))
            yield from _scans(left, (*own, *above))
            yield from _scans(right, (*own, *above))
        case OuterJoin(left=left, right=right):
            # A bound above also rejects the NULLs of rows that lose their partners. The join's own condition decides
            # nothing about the rows of a side that is preserved.
            own = () if node.condition is None else tuple(conjuncts(node.condition))
            yield from _scans(left, above if node.keeps_left else (*own, *above))
            yield from _scans(right, above if node.keeps_right else (*own, *above))
        case _:
            for child in children(node):
                yield from _scans(child, ())
    for subquery in (found for scalar in expressions(node) for found in subqueries(scalar)):
        yield from _scans(subquery.relation, ())


def _keys(scan: Scan, key: Sequence[str], conditions: Conditions, known: Mapping[str, Values]) -> frozenset[Row] | None:
    """The keys that ``conditions`` allow, as the product of the values of each column."""
    fields = {declared.name: field for declared, field in zip(scan.columns, scan.fields, strict=True)}
    allowed: dict[str, Values] = {}
    for condition in conditions:
        bounds = [(name, _values(condition, fields[name], known)) for name in key]
        for name, values in bounds:
            if values is not None:
                allowed[name] = allowed[name] & values if name in allowed else values
        if may_fail(condition) and all(values is None for _, values in bounds):
            break
    if len(allowed) < len(key) or prod(map(len, allowed.values())) > MAX_KEYS:
        return None
    return frozenset(product(*(allowed[name] for name in key)))


def _values(condition: Scalar, column: t.Field, known: Mapping[str, Values]) -> Values | None:
    """The values of a column for which ``condition`` can be true; None if it does not list them."""
    if not isinstance(column.type, KEY_TYPES):
        return None
    match condition:
        case Call(function="eq", arguments=(one, other)):
            found = _equal(one, (other,), column, known)
            return _equal(other, (one,), column, known) if found is None else found
        case Call(function="in", arguments=(tested, *listed)):
            return _equal(tested, listed, column, known)
        case Call(function="and" | "or" as connective, arguments=parts):
            listed_by = [values for part in parts if (values := _values(part, column, known)) is not None]
            if connective == "and":
                return frozenset.intersection(*listed_by) if listed_by else None
            return frozenset[Any]().union(*listed_by) if len(listed_by) == len(parts) else None
    return None


def _equal(tested: Scalar, others: Sequence[Scalar], column: t.Field, known: Mapping[str, Values]) -> Values | None:
    """The values of a column for which ``tested`` equals one of ``others``; NULL equals nothing."""
    cast = tested if isinstance(tested, Cast) and is_exact(tested) else None
    if cast is not None:
        tested = cast.input
    if not isinstance(tested, Column) or tested.name != column.name:
        return None
    found: set[Any] = set()
    for other in others:
        values = _possible(other, known)
        if values is None:
            return None
        found.update(values)
    found.discard(None)
    return frozenset(found) if cast is None else _before_cast(found, cast)


def _possible(scalar: Scalar, known: Mapping[str, Values]) -> Values | None:
    """The values that an expression can have: those of a known column, or that of a constant."""
    match scalar:
        case Literal(value=value):
            return frozenset((value,))
        case Column(name=name):
            return known.get(name)
        case Cast(input=Column(name=name)) if is_exact(scalar) and name in known:
            return frozenset(cast_value(value, scalar.input.type, scalar.of) for value in known[name])
    if not all(_is_constant(node) for node in walk(scalar)):
        return None
    try:
        return frozenset((evaluate_scalar(scalar, {}),))
    except ArithmeticFault:
        return None


def _is_constant(node: Scalar) -> bool:
    match node:
        case Literal() | Cast():
            return True
        case Call(function=function):
            return USER_FUNCTION_MARK not in function
    return False


def _before_cast(values: set[Any], cast: Cast) -> Values:
    """The preimages of ``values`` under an exact cast, which is injective; some have none."""
    narrow, wide = cast.input.type, cast.of
    found = set()
    for value in values:
        try:
            original = cast_value(value, wide, narrow)
        except ArithmeticFault:
            continue
        if cast_value(original, narrow, wide) == value:
            found.add(original)
    return frozenset(found)
