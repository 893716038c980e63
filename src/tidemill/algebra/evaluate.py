"""The oracle: what each node means, in the plainest Python. It is slow and obvious; all else is tested against it."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from tidemill.algebra import relations as r
from tidemill.algebra.aggregates import AggregateCall
from tidemill.algebra.casts import cast_value, checked
from tidemill.algebra.decimals import EXACT, divided, quantized
from tidemill.algebra.functions import FUNCTIONS
from tidemill.algebra.relations import Relation
from tidemill.algebra.scalars import Call, Case, Cast, Column, Literal, Scalar, Subquery
from tidemill.algebra.walk import columns_in, conjuncts
from tidemill.changes.arrow import canonical_double
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import names_of
from tidemill.model.types import Field, Type

Tables = Mapping[str, ZSet]
Environment = Mapping[str, Any]


class Surroundings:
    """What a relation is evaluated in: the tables, and the values of the columns around it where it is a subquery.

    A subquery is computed once for all rows that agree in what they show it.
    """

    def __init__(self, tables: Tables, outer: Environment, answers: dict[tuple[int, Row], Any] | None = None) -> None:
        self.tables = tables
        self.outer = outer
        self._answers = {} if answers is None else answers
        self._shown: dict[int, list[str]] = {}

    def rows(self, relation: Relation) -> ZSet:
        """The rows of ``relation``."""
        return _MEANING[type(relation)](relation, self)

    def bind(self, row: Row, fields: Sequence[Field]) -> Environment:
        """The values of a row and of those around it, by column name."""
        return {**self.outer, **bind(row, fields)}

    def answer(self, subquery: Subquery, row: Environment) -> Any:
        """The value of ``subquery`` beside ``row``: NULL where it has no row."""
        if id(subquery) not in self._shown:
            self._shown[id(subquery)] = sorted(columns_in(subquery))
        question = id(subquery), tuple([row[name] for name in self._shown[id(subquery)]])
        if question not in self._answers:
            self._answers[question] = self._only_value(subquery, row)
        return self._answers[question]

    def _only_value(self, subquery: Subquery, row: Environment) -> Any:
        rows = list(Surroundings(self.tables, row, self._answers).rows(subquery.relation).expand())
        if len(rows) > 1:
            raise ArithmeticFault(f"a subquery has {len(rows)} rows where a value is wanted")
        return rows[0][0] if rows else None


def evaluate(relation: Relation, tables: Tables, outer: Environment | None = None) -> ZSet:
    """The rows of ``relation``, given those of every table and view that it scans.

    ``outer`` are the values of the columns around it, which a correlated subquery may read.
    """
    return Surroundings(tables, outer or {}).rows(relation)


def _scan(node: r.Scan, around: Surroundings) -> ZSet:
    return around.tables[node.relation]


def _change(node: r.Change, around: Surroundings) -> ZSet:
    return around.tables[node.source]


def _values(node: r.Values, around: Surroundings) -> ZSet:
    return ZSet.of(node.rows)


def _filter(node: r.Filter, around: Surroundings) -> ZSet:
    rows = around.rows(node.input)
    return ZSet({row: weight for row, weight in rows.items() if holds(node.condition, row, node.fields, around)})


def _project(node: r.Project, around: Surroundings) -> ZSet:
    result = ZSet()
    for row, weight in around.rows(node.input).items():
        values = around.bind(row, node.input.fields)
        result.add(tuple(evaluate_scalar(output.scalar, values, around) for output in node.outputs), weight)
    return result


def _join(node: r.Join, around: Surroundings) -> ZSet:
    result = ZSet()
    # Columns that must be equal split the right side, so that hopeless pairs are not looked at; the condition decides.
    equal = _equal_columns(node)
    matches: dict[Row, list[tuple[Row, int]]] = {}
    for other, times in around.rows(node.right).items():
        matches.setdefault(tuple([other[position] for _, position in equal]), []).append((other, times))
    for one, weight in around.rows(node.left).items():
        for other, times in matches.get(tuple([one[position] for position, _ in equal]), ()):
            if node.condition is None or holds(node.condition, one + other, node.fields, around):
                result.add(one + other, weight * times)
    return result


def _equal_columns(node: r.Join) -> list[tuple[int, int]]:
    """Where the columns stand, left and right, that the join's condition wants to be equal."""
    left, right = names_of(node.left.fields), names_of(node.right.fields)
    found = []
    for conjunct in conjuncts(node.condition) if node.condition is not None else ():
        match conjunct:
            case Call("eq", (Column(one), Column(other))):
                one, other = (one, other) if one in left else (other, one)
                if one in left and other in right:
                    found.append((left.index(one), right.index(other)))
    return found


def _union_all(node: r.UnionAll, around: Surroundings) -> ZSet:
    return sum(map(around.rows, node.inputs), ZSet())


def _aggregate(node: r.Aggregate, around: Surroundings) -> ZSet:
    groups: dict[Row, list[tuple[Environment, int]]] = {} if node.keys else {(): []}
    for row, weight in around.rows(node.input).items():
        values = around.bind(row, node.input.fields)
        key = tuple(evaluate_scalar(named.scalar, values, around) for named in node.keys)
        groups.setdefault(key, []).append((values, weight))
    result = ZSet()
    for key, members in groups.items():
        if not node.keys or sum(weight for _, weight in members) > 0:
            result.add(key + tuple(aggregate_value(call, members, around) for call in node.aggregates), 1)
    return result


def _distinct(node: r.Distinct, around: Surroundings) -> ZSet:
    return ZSet({row: 1 for row, weight in around.rows(node.input).items() if weight > 0})


_MEANING: dict[type[Relation], Callable[[Any, Surroundings], ZSet]] = {
    r.Scan: _scan,
    r.Change: _change,
    r.Values: _values,
    r.Filter: _filter,
    r.Project: _project,
    r.Join: _join,
    r.UnionAll: _union_all,
    r.Aggregate: _aggregate,
    r.Distinct: _distinct,
}


def bind(row: Row, fields: Sequence[Field]) -> Environment:
    """The values of a row by column name."""
    return dict(zip(names_of(fields), row, strict=True))


NOWHERE = Surroundings({}, {})
"""Around an expression without subqueries nothing needs to be known."""


def holds(condition: Scalar, row: Row, fields: Sequence[Field], around: Surroundings = NOWHERE) -> bool:
    """Whether ``condition`` is true of ``row``: neither false nor NULL."""
    return evaluate_scalar(condition, around.bind(row, fields), around) is True


def evaluate_scalar(scalar: Scalar, row: Environment, around: Surroundings = NOWHERE) -> Any:
    """The value of ``scalar``, given the values of the columns that it reads, and what its subqueries read.

    >>> from tidemill.algebra.functions import call
    >>> evaluate_scalar(call("add", Column("n", t.INT), Literal(1, t.INT)), {"n": 41})
    42
    """
    match scalar:
        case Column(name=name):
            return row[name]
        case Literal(value=value):
            return value
        case Cast(input=input_, of=of, lenient=lenient):
            return cast_value(evaluate_scalar(input_, row, around), input_.type, of, lenient)
        case Case(branches=branches, default=default):
            taken = (value for condition, value in branches if evaluate_scalar(condition, row, around) is True)
            return evaluate_scalar(next(taken, default), row, around)
        case Call():
            return _call(scalar, row, around)
        case Subquery():
            return around.answer(scalar, row)
    raise TypeError(f"no meaning for {scalar!r}")


SETTLES: dict[str, Callable[[Any], bool]] = {
    "and": lambda value: value is False,
    "or": lambda value: value is True,
    "coalesce": lambda value: value is not None,
}
"""The functions that look no further once an argument has such a value: what comes after it may even be an error."""


def _call(node: Call, row: Environment, around: Surroundings) -> Any:
    function = FUNCTIONS[node.function]
    settles = SETTLES.get(node.function, lambda value: value is None and function.strict)
    arguments = []
    for argument in node.arguments:
        arguments.append(evaluate_scalar(argument, row, around))
        if settles(arguments[-1]):
            break
    if function.strict and None in arguments:
        return None
    return function.apply(node.of, *arguments) if function.typed else function.apply(*arguments)


def aggregate_value(
    call: AggregateCall, members: Sequence[tuple[Environment, int]], around: Surroundings = NOWHERE
) -> Any:
    """The value of an aggregate over the rows of a group, each with its weight."""
    seen = [
        (1 if call.argument is None else evaluate_scalar(call.argument, values, around), weight)
        for values, weight in members
        if call.filter is None or evaluate_scalar(call.filter, values, around) is True
    ]
    known = [(value, weight) for value, weight in seen if value is not None]
    count = sum(weight for _, weight in known)
    if call.function == "count":
        return count
    if count == 0 or call.argument is None:
        return None
    return _AGGREGATES[call.function, type(call.argument.type)](call.of, known, count)


Weighted = Sequence[tuple[Any, int]]


def _sum_integers(of: Type, known: Weighted, count: int) -> int:
    return checked(t.BIGINT, sum(value * weight for value, weight in known))


def _sum_decimals(of: t.Decimal, known: Weighted, count: int) -> decimal.Decimal:
    total = decimal.Decimal(0)
    for value, weight in known:
        total = EXACT.add(total, EXACT.multiply(value, decimal.Decimal(weight)))
    return quantized(total, of)


def _sum_doubles(of: Type, known: Weighted, count: int) -> float:
    """The double nearest to the exact sum. A NaN, or infinities of both signs, make it NaN."""
    special = [value for value, weight in known if not math.isfinite(value) and weight > 0]
    if special:
        return canonical_double(sum(special))
    total = sum((Fraction(value) * weight for value, weight in known if math.isfinite(value)), Fraction())
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _average_integers(of: Type, known: Weighted, count: int) -> float:
    return float(sum(value * weight for value, weight in known)) / count


def _average_decimals(of: t.Decimal, known: Weighted, count: int) -> decimal.Decimal:
    # Of DECIMAL(p, s) the sum is DECIMAL(p + 10, s) and the average DECIMAL(p + 4, s + 4); here s may be cut at 38.
    total = _sum_decimals(t.Decimal(t.MAX_PRECISION, of.scale), known, count)
    return quantized(divided(total, decimal.Decimal(count)), of)


def _average_doubles(of: Type, known: Weighted, count: int) -> float:
    return canonical_double(_sum_doubles(of, known, count) / count)


_AGGREGATES: dict[tuple[str, type[Type]], Callable[[Any, Weighted, int], Any]] = {
    ("sum", t.Int): _sum_integers,
    ("sum", t.BigInt): _sum_integers,
    ("sum", t.Decimal): _sum_decimals,
    ("sum", t.Double): _sum_doubles,
    ("avg", t.Int): _average_integers,
    ("avg", t.BigInt): _average_integers,
    ("avg", t.Decimal): _average_decimals,
    ("avg", t.Double): _average_doubles,
}
