"""The semantics of the calculus in plain Python: a query is a function from keys to a count and sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.functions.comparison import compare
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.viewlets.delta_queries import DeltaQuery
from tidemill.compiler.viewlets.plans import EventStep
from tidemill.compiler.viewlets.ring_calculus.polynomials import Polynomial
from tidemill.compiler.viewlets.ring_calculus.queries import MARK, Atom, CalculusQuery, Lift
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BOOLEAN, Type
from tidemill.program.statements import RangeBound

Tables = Mapping[str, tuple[list[str], ZSet]]
"""Column names and rows, by relation."""

Numbers = list[Fraction]
Answer = dict[Row, Numbers]
Environment = dict[str, Any]


def answer(
    query: CalculusQuery, tables: Tables, change: Tables | None = None, outer: Environment | None = None
) -> Answer:
    """For each key the count of rows and the sums; keys that add up to nothing are not there."""
    return answer_of(DeltaQuery(query), tables, change or {}, outer or {})


def answer_of(delta: DeltaQuery, tables: Tables, change: Tables, outer: Environment) -> Answer:
    """The same for a product that counts ``sign`` times, with variables bound and lifts moved."""
    result: Answer = {}
    query = delta.query
    for values, weight in _joined(query.atoms, tables, change, dict(outer)):
        if any(not _equal(values[name], evaluate_scalar(s, outer)) for name, s in delta.bound.items()):
            continue
        for lift in query.lifts:
            values |= _lifted(lift, delta.moves.get(lift.alias, ()), tables, values)
        if all(evaluate_scalar(condition, values) is True for condition in query.conditions):
            key = tuple(evaluate_scalar(scalar, values) for scalar in query.keys)
            amounts = [Fraction(1), *(polynomial(term, values) for term in query.terms)]
            _add(result, key, [delta.sign * weight * amount for amount in amounts])
    return result


def added(one: Answer, *others: Answer) -> Answer:
    """The sum of answers."""
    result: Answer = {}
    for part in (one, *others):
        for key, numbers in part.items():
            _add(result, key, numbers)
    return result


def row_of(relation: str, names: Sequence[str], row: Row, weight: int) -> Environment:
    """One changed row, under the names that deltas for single rows read it by."""
    event = EventStep(relation, "").id
    return {f"{event}{MARK}{n}": value for n, value in zip((*names, WEIGHT), (*row, weight), strict=True)}


def polynomial(terms: Polynomial, values: Environment) -> Fraction:
    """The value of a polynomial: NULL and what is not true count 0."""
    total = Fraction(0)
    for term in terms:
        product = Fraction(term.coefficient)
        for factor in term.factors:
            product *= _number(factor, values)
        total += product
    return total


def _number(factor: Scalar, values: Environment) -> Fraction:
    value = evaluate_scalar(factor, values)
    return Fraction(value is True) if factor.type == BOOLEAN else Fraction(0 if value is None else value)


def _joined(
    atoms: Sequence[Atom], tables: Tables, change: Tables, values: Environment
) -> Iterator[tuple[Environment, int]]:
    if not atoms:
        yield dict(values), 1
        return
    atom, *rest = atoms
    names, rows = (change if atom.event else tables)[atom.relation]
    for row, weight in rows.items():
        here = dict(values)
        columns = dict(zip(names, row, strict=True))
        bound = {variable: columns[f.name] for variable, f in zip(atom.variables, atom.columns, strict=True)}
        if all(_equal(values[name], value) for name, value in bound.items() if name in values):
            for inner, times in _joined(rest, tables, change, here | bound):
                yield inner, weight * times


def _lifted(lift: Lift, moves: Sequence[Polynomial], tables: Tables, values: Environment) -> Environment:
    looked_up = [evaluate_scalar(scalar, values) for scalar in lift.lookup]
    total = [Fraction(0)] * len(lift.numbers)
    for key, numbers in answer(lift.query, tables).items():
        found = all(_equal(own, wanted) for own, wanted in zip(key, looked_up, strict=False))
        if found and (not lift.ranged or _within(key[-1], lift, values)):
            total = [a + b for a, b in zip(total, numbers, strict=True)]
    if moves:
        total = [a + polynomial(move, values) for a, move in zip(total, moves, strict=True)]
    return {number.name: _inner(value, number.of) for number, value in zip(lift.numbers, total, strict=True)}


def _inner(value: Fraction, of: Type) -> Any:
    """An exact number as expressions see it."""
    return (
        EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)) if isinstance(of, t.Decimal) else int(value)
    )


def _within(key: Any, lift: Lift, values: Environment) -> bool:
    return _beyond(key, lift.lower, 1, values) and _beyond(key, lift.upper, -1, values)


def _beyond(key: Any, bound: RangeBound | None, side: int, values: Environment) -> bool:
    if bound is None:
        return True
    limit = evaluate_scalar(bound.scalar, values)
    if key is None or limit is None:
        return False
    order = compare(key, limit) * side
    return order > 0 or (order == 0 and bound.closed)


def _equal(one: Any, other: Any) -> bool:
    return one is not None and other is not None and compare(one, other) == 0


def _add(result: Answer, key: Row, numbers: Sequence[Fraction]) -> None:
    total = [a + b for a, b in zip(result.get(key, [Fraction(0)] * len(numbers)), numbers, strict=True)]
    result.pop(key, None)
    if any(total):
        result[key] = total
