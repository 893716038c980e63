"""The evaluator: the meaning of each node in the plainest Python. Slow and obvious; everything is tested against it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_multiset
from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.ordering import SortOrder, sort_key
from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Quantified,
    Scalar,
    Subquery,
)
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.kernels.windows import window_values
from tidemill.algebra.matching.partial_matches import Holds, ListedRows, navigations_read
from tidemill.algebra.matching.search import Matcher
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.time_partitions import (
    MOST_PARTITIONS,
    PartitionSlice,
    TimePartitioned,
    too_many_partitions,
)
from tidemill.algebra.relational.walk import SubqueryExpression, columns_in
from tidemill.algebra.relational.windows import WindowCall
from tidemill.algebra.values.casts import cast_value
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import names_of
from tidemill.model.types import Field

Tables = Mapping[str, ZSet]
Environment = Mapping[str, Any]


class EvaluationContext:
    """The tables, and for a subquery the values of the outer columns, in which a relation is evaluated.

    A subquery is evaluated once for all rows that agree in the columns that it reads.
    """

    def __init__(self, tables: Tables, outer: Environment, answers: dict[tuple[int, Row], Any] | None = None) -> None:
        self.tables = tables
        self.outer = outer
        self._answers = {} if answers is None else answers
        self._shown: dict[int, list[str]] = {}

    def rows(self, relation: Relation) -> ZSet:
        """The rows of ``relation``."""
        return _MEANING[type(relation)](relation, self)

    def binder(self, fields: Sequence[Field]) -> Callable[[Row], Environment]:
        """A function from a row to its values and those of the outer rows, by column name."""
        names, outer = names_of(fields), self.outer
        if outer:
            return lambda row: {**outer, **dict(zip(names, row, strict=True))}
        return lambda row: dict(zip(names, row, strict=True))

    def answer(self, subquery: SubqueryExpression, row: Environment) -> Any:
        """The value of ``subquery`` for ``row``: NULL if it has no row."""
        if id(subquery) not in self._shown:
            self._shown[id(subquery)] = sorted(columns_in(subquery))
        question = id(subquery), tuple([row[name] for name in self._shown[id(subquery)]])
        if question not in self._answers:
            around = EvaluationContext(self.tables, row, self._answers)
            rows = list(around.rows(subquery.relation).expand())
            self._answers[question] = _NESTED[type(subquery)](subquery, rows, around)
        return self._answers[question]


def _only_value(subquery: Subquery, rows: list[Row], around: EvaluationContext) -> Any:
    if len(rows) > 1:
        raise ArithmeticFault(f"a subquery has {len(rows)} rows where a value is wanted")
    return rows[0][0] if rows else None


def _exists(subquery: Exists, rows: list[Row], around: EvaluationContext) -> bool:
    return bool(rows)


def _quantified(subquery: Quantified, rows: list[Row], around: EvaluationContext) -> bool | None:
    bound = around.binder(subquery.relation.fields)
    found = {evaluate_scalar(subquery.condition, bound(row), around) for row in rows}
    decided = not subquery.all
    if decided in found:
        return decided
    return None if None in found else not decided


_NESTED: dict[type[Scalar], Callable[[Any, list[Row], EvaluationContext], Any]] = {
    Subquery: _only_value,
    Exists: _exists,
    Quantified: _quantified,
}


def evaluate(relation: Relation, tables: Tables, outer: Environment | None = None) -> ZSet:
    """The rows of ``relation``, given those of every table and view that it scans.

    ``outer`` are the values of the columns around it, which a correlated subquery may read.
    """
    return EvaluationContext(tables, outer or {}).rows(relation)


def _scan(node: r.Scan, around: EvaluationContext) -> ZSet:
    return around.tables[node.relation]


def _change(node: r.Change, around: EvaluationContext) -> ZSet:
    return around.tables[node.source]


def _values(node: r.Values, around: EvaluationContext) -> ZSet:
    return ZSet.of(node.rows)


def _filter(node: r.Filter, around: EvaluationContext) -> ZSet:
    rows, bound, condition = around.rows(node.input), around.binder(node.fields), node.condition
    return ZSet({row: weight for row, weight in rows.items() if evaluate_scalar(condition, bound(row), around) is True})


def _project(node: r.Project, around: EvaluationContext) -> ZSet:
    result, bound = ZSet(), around.binder(node.input.fields)
    for row, weight in around.rows(node.input).items():
        values = bound(row)
        result.add(tuple(evaluate_scalar(output.scalar, values, around) for output in node.outputs), weight)
    return result


def _join(node: r.Join, around: EvaluationContext) -> ZSet:
    return _pairs(node, around.rows(node.left), around.rows(node.right), around)


def _pairs(node: r.Join | r.OuterJoin, left: ZSet, right: ZSet, around: EvaluationContext) -> ZSet:
    """The rows of both sides for which the condition is true."""
    result, bound, condition = ZSet(), around.binder(node.fields), node.condition
    # Equality columns hash the right side, so that most pairs are skipped; the condition decides.
    equal = _equal_columns(node)
    matches: dict[Row, list[tuple[Row, int]]] = {}
    for other, times in right.items():
        matches.setdefault(tuple([other[position] for _, position in equal]), []).append((other, times))
    for one, weight in left.items():
        for other, times in matches.get(tuple([one[position] for position, _ in equal]), ()):
            if condition is None or evaluate_scalar(condition, bound(one + other), around) is True:
                result.add(one + other, weight * times)
    return result


def _equal_columns(node: r.Join | r.OuterJoin) -> list[tuple[int, int]]:
    """Positions of the columns, left and right, that the join's condition equates."""
    left, right = names_of(node.left.fields), names_of(node.right.fields)
    found = []
    for conjunct in conjuncts(node.condition) if node.condition is not None else ():
        match conjunct:
            case Call("eq", (Column(one), Column(other))):
                one, other = (one, other) if one in left else (other, one)
                if one in left and other in right:
                    found.append((left.index(one), right.index(other)))
    return found


def _union_all(node: r.UnionAll, around: EvaluationContext) -> ZSet:
    return sum(map(around.rows, node.inputs), ZSet())


def _outer_join(node: r.OuterJoin, around: EvaluationContext) -> ZSet:
    left, right = around.rows(node.left), around.rows(node.right)
    pairs = _pairs(node, left, right, around)
    width = len(node.left.fields)
    met = [{pair[:width] for pair in pairs}, {pair[width:] for pair in pairs}]
    if node.keeps_left:
        nothing = (None,) * len(node.right.fields)
        pairs = pairs + ZSet({row + nothing: weight for row, weight in left.items() if row not in met[0]})
    if node.keeps_right:
        nothing = (None,) * width
        pairs = pairs + ZSet({nothing + row: weight for row, weight in right.items() if row not in met[1]})
    return pairs


def _unnest(node: r.Unnest, around: EvaluationContext) -> ZSet:
    result, bound = ZSet(), around.binder(node.input.fields)
    for row, weight in around.rows(node.input).items():
        elements = evaluate_scalar(node.array, bound(row), around) or ()
        for place in enumerate(elements):
            result.add(row + place[2 - len(node.columns) :], weight)
        if node.outer and not elements:
            result.add(row + (None,) * len(node.columns), weight)
    return result


def _intersect(node: r.Intersect, around: EvaluationContext) -> ZSet:
    left, right = around.rows(node.left), around.rows(node.right)
    both = {row: min(weight, right.weight(row)) for row, weight in left.items()}
    return ZSet({row: weight if node.all else 1 for row, weight in both.items() if weight > 0})


def _except(node: r.Except, around: EvaluationContext) -> ZSet:
    left, right = around.rows(node.left), around.rows(node.right)
    if node.all:
        return ZSet({row: weight for row, weight in (left - right).items() if weight > 0})
    return ZSet({row: 1 for row, weight in left.items() if weight > 0 >= right.weight(row)})


def _repeat(node: r.Repeat, around: EvaluationContext) -> ZSet:
    result, bound = ZSet(), around.binder(node.fields)
    for row, weight in around.rows(node.input).items():
        times = evaluate_scalar(node.times, bound(row), around)
        result.add(row, weight * max(times or 0, 0))
    return result


def partitions_in_order(node: r.TopK | r.Window | Match, around: EvaluationContext) -> list[list[Row]]:
    """The rows of each partition in order, each repeated by its weight."""
    bound = around.binder(node.input.fields)
    parts: dict[Row, list[tuple[Any, Row]]] = {}
    for row in around.rows(node.input).expand():
        values = bound(row)
        key = tuple([evaluate_scalar(scalar, values, around) for scalar in node.partition])
        place = _place([evaluate_scalar(term.scalar, values, around) for term in node.order], node.order, row)
        parts.setdefault(key, []).append((place, row))
    return [[row for _, row in sorted(part, key=itemgetter(0))] for part in parts.values()]


def _place(values: Sequence[Any], order: Sequence[SortOrder], row: Row) -> Any:
    return sort_key(values, order), order_key(row)


def _top_k(node: r.TopK, around: EvaluationContext) -> ZSet:
    result = ZSet()
    for part in partitions_in_order(node, around):
        last = None if node.limit is None else node.offset + node.limit
        for row in part[node.offset : last]:
            result.add(row, 1)
        if node.ties and last is not None and node.offset < last <= len(part):
            terms, bound = [term.scalar for term in node.order], around.binder(node.fields)
            seen = [_values_of(terms, bound(row), around) for row in part[last - 1 :]]
            for row, values in zip(part[last:], seen[1:], strict=True):
                if values == seen[0]:
                    result.add(row, 1)
    return result


def _values_of(scalars: Sequence[Scalar], values: Environment, around: EvaluationContext) -> list[Any]:
    return [order_key(evaluate_scalar(scalar, values, around)) for scalar in scalars]


def _window(node: r.Window, around: EvaluationContext) -> ZSet:
    result, bound = ZSet(), around.binder(node.input.fields)
    for part in partitions_in_order(node, around):
        environments = [bound(row) for row in part]
        places = [
            tuple([evaluate_scalar(term.scalar, values, around) for term in node.order]) for values in environments
        ]
        columns = [window_values(call, _shown(call, environments, around), places, node.order) for call in node.calls]
        for row, values in zip(part, zip(*columns, strict=True), strict=True):
            result.add(row + values, 1)
    return result


def _match(node: Match, around: EvaluationContext) -> ZSet:
    matcher = Matcher(node, {name: _holds(node, name, condition) for name, condition in node.conditions})
    result, bound = ZSet(), around.binder(node.input.fields)
    for part in partitions_in_order(node, around):
        environments = [bound(row) for row in part]
        seen = [tuple([evaluate_scalar(scalar, row, around) for scalar in node.arguments]) for row in environments]
        for number, values in matcher.all(ListedRows(seen)):
            result.add(part[number] + values, 1)
    return result


def _holds(node: Match, variable: str, condition: Scalar) -> Holds:
    names = [node.navigations[number].name for number in navigations_read(node, variable)]
    return lambda values: evaluate_scalar(condition, dict(zip(names, values, strict=True))) is True


def _shown(call: WindowCall, rows: Sequence[Environment], around: EvaluationContext) -> list[Row | None]:
    """The arguments of a window function in each row; None if its FILTER excludes the row."""
    return [
        tuple([evaluate_scalar(scalar, row, around) for scalar in call.arguments])
        if call.filter is None or evaluate_scalar(call.filter, row, around) is True
        else None
        for row in rows
    ]


MOST_RECURSIVE_ROWS = 1_000_000
"""Number of rows that a recursion with UNION ALL may have, as in Spark."""


def _with(node: r.With, around: EvaluationContext) -> ZSet:
    for name, relation in node.definitions:
        around = EvaluationContext({**around.tables, name: around.rows(relation)}, around.outer)
    return around.rows(node.body)


def _recursive(node: r.Recursive, around: EvaluationContext) -> ZSet:
    found, number, count = ZSet(), 0, 0
    last = around.rows(node.base)
    while True:
        if node.distinct:
            last = ZSet({row: 1 for row, weight in last.items() if weight > 0 and row not in found})
        if not last or (node.enough is not None and count >= node.enough):
            return found
        if number >= node.levels:
            raise endless(node.levels)
        found, count = found + last, count + sum(last.values())
        if not node.distinct and count > MOST_RECURSIVE_ROWS:
            raise too_many_recursive_rows()
        last = EvaluationContext({**around.tables, node.name: last}, around.outer).rows(node.step)
        number += 1


def endless(levels: int) -> ArithmeticFault:
    """The error for a recursion that does not end within its levels."""
    return ArithmeticFault(
        f"a recursive query still finds rows after {levels:,} levels",
        hint="Bound it in the recursive part (WHERE depth < 50), write WITH RECURSIVE t MAX RECURSION LEVEL 1000 AS "
        "(...), or use UNION where its rows go in a circle.",
    )


def too_many_recursive_rows() -> ArithmeticFault:
    """The error for a recursion with UNION ALL that finds too many rows."""
    return ArithmeticFault(
        f"a recursive query finds more than {MOST_RECURSIVE_ROWS:,} rows",
        detail="Spark ends a recursion there, too.",
        hint="Bound it in the recursive part, or use UNION, which counts each row once.",
    )


def _time_partitioned(node: TimePartitioned, around: EvaluationContext) -> ZSet:
    parts = {feed.name: _by_number(around.rows(feed.rows), numbered=feed.every != 0) for feed in node.feeds}
    timed = [feed for feed in node.feeds if feed.every]
    own = {node.own_number(feed, number) for feed in timed for number in parts[feed.name]}
    made = parts[node.name] = {}
    result = ZSet()
    numbers = range(min(own), max(own) + 1) if own else range(0)
    number = numbers.start
    if len(numbers) > MOST_PARTITIONS and not all(feed.every for feed in node.feeds):
        raise too_many_partitions(numbers[0], numbers[-1])
    while number in numbers:
        slices = {slice_.name: _slice(parts[slice_.feed], slice_, number) for slice_ in node.slices}
        body = node.update if made else node.initialize
        made[number] = EvaluationContext(slices, around.outer).rows(body)
        for row, weight in made[number].items():
            result.add((number, *row), weight)
        if len(numbers) <= MOST_PARTITIONS or any(slices.values()):
            number += 1
        elif made[number]:
            raise too_many_partitions(numbers[0], numbers[-1])
        else:
            number = _next_reader(node, parts, number)
    return result


def _next_reader(node: TimePartitioned, parts: Mapping[str, Mapping[int, ZSet]], number: int) -> int:
    """The first partition after ``number`` that reads rows: those in between are alike, and have no rows."""
    read = [slice_.readers(there) for slice_ in node.slices for there, part in parts[slice_.feed].items() if part]
    return min((int(max(first, number + 1)) for first, last in read if last > number), default=sys.maxsize)


def _by_number(rows: ZSet, *, numbered: bool) -> dict[int, ZSet]:
    """The rows of each partition, without their numbers; those of a feed that has no partitions are all in number 0."""
    parts: dict[int, ZSet] = {}
    for row, weight in rows.items():
        if row[0] is not None or not numbered:
            parts.setdefault(row[0] if numbered else 0, ZSet()).add(row[1:] if numbered else row, weight)
    return {number: part for number, part in parts.items() if part}


def _slice(parts: Mapping[int, ZSet], slice_: PartitionSlice, number: int) -> ZSet:
    """The rows of the partitions that a slice reads for partition ``number``."""
    low = -math.inf if slice_.low is None else slice_.low.at(number)
    high = math.inf if slice_.high is None else slice_.high.at(number)
    return sum((part for there, part in parts.items() if low <= there <= high), ZSet())


def _aggregate(node: r.Aggregate, around: EvaluationContext) -> ZSet:
    groups: dict[Row, list[tuple[Environment, int]]] = {} if node.keys else {(): []}
    bound = around.binder(node.input.fields)
    for row, weight in around.rows(node.input).items():
        values = bound(row)
        key = tuple(evaluate_scalar(named.scalar, values, around) for named in node.keys)
        groups.setdefault(key, []).append((values, weight))
    result = ZSet()
    for key, members in groups.items():
        if not node.keys or sum(weight for _, weight in members) > 0:
            result.add(key + tuple(aggregate_value(call, members, around) for call in node.aggregates), 1)
    return result


def _distinct(node: r.Distinct, around: EvaluationContext) -> ZSet:
    return ZSet({row: 1 for row, weight in around.rows(node.input).items() if weight > 0})


_MEANING: dict[type[Relation], Callable[[Any, EvaluationContext], ZSet]] = {
    r.Scan: _scan,
    r.Change: _change,
    r.Values: _values,
    r.Filter: _filter,
    r.Project: _project,
    r.Join: _join,
    r.OuterJoin: _outer_join,
    r.Unnest: _unnest,
    r.UnionAll: _union_all,
    r.Intersect: _intersect,
    r.Except: _except,
    r.Repeat: _repeat,
    r.Aggregate: _aggregate,
    r.Distinct: _distinct,
    r.TopK: _top_k,
    r.Window: _window,
    r.Recursive: _recursive,
    r.With: _with,
    TimePartitioned: _time_partitioned,
    Match: _match,
}


EMPTY_CONTEXT = EvaluationContext({}, {})
"""The context of an expression without subqueries."""


def evaluate_scalar(scalar: Scalar, row: Environment, around: EvaluationContext = EMPTY_CONTEXT) -> Any:
    """The value of ``scalar``, given the values of the columns that it reads, and what its subqueries read.

    >>> from tidemill.algebra.expressions.call import call
    >>> from tidemill.model.types import INT
    >>> evaluate_scalar(call("add", Column("n", INT), Literal(1, INT)), {"n": 41})
    42
    """
    match scalar:
        case Column(name=name):
            return row[name]
        case Literal(value=value):
            return value
        case Call():
            return _call(scalar, row, around)
        case Cast(input=input_, of=of, lenient=lenient):
            return cast_value(evaluate_scalar(input_, row, around), input_.type, of, lenient)
        case Case(branches=branches, default=default):
            taken = (value for condition, value in branches if evaluate_scalar(condition, row, around) is True)
            return evaluate_scalar(next(taken, default), row, around)
        case Subquery() | Exists() | Quantified():
            return around.answer(scalar, row)
        case Lambda():
            return _function(scalar, row, around)
    raise TypeError(f"no meaning for {scalar!r}")


def _function(node: Lambda, row: Environment, around: EvaluationContext) -> Callable[..., Any]:
    names = [parameter.name for parameter in node.parameters]

    def apply(*arguments: Any) -> Any:
        return evaluate_scalar(node.body, {**row, **dict(zip(names, arguments, strict=False))}, around)

    return apply


SETTLES: dict[str, Callable[[Any], bool]] = {
    "and": lambda value: value is False,
    "or": lambda value: value is True,
    "coalesce": lambda value: value is not None,
}
"""Functions that short-circuit at an argument with such a value: later arguments may even be errors."""


def _call(node: Call, row: Environment, around: EvaluationContext) -> Any:
    function = FUNCTIONS[node.function]
    settles = SETTLES.get(node.function)
    arguments = []
    for argument in node.arguments:
        value = evaluate_scalar(argument, row, around)
        if value is None and function.strict:
            return None
        arguments.append(value)
        if settles is not None and settles(value):
            break
    return function.bound([argument.type for argument in node.arguments], node.of)(*arguments)


def aggregate_value(
    call: AggregateCall, members: Sequence[tuple[Environment, int]], around: EvaluationContext = EMPTY_CONTEXT
) -> Any:
    """The value of an aggregate over the rows of a group, each with its weight."""
    looked_at = call.scalars if call.filter is None else call.scalars[:-1]
    seen = [
        (tuple([evaluate_scalar(scalar, values, around) for scalar in looked_at]), weight)
        for values, weight in members
        if call.filter is None or evaluate_scalar(call.filter, values, around) is True
    ]
    return aggregate_multiset(call, seen)
