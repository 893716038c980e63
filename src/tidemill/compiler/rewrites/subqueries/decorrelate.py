"""Subqueries in expressions, as joins with grouped aggregates.

A subquery is defined for one outer row. Here it is computed for all outer rows at once, by nodes that have a
derivative: grouped by what it is correlated by, and joined back. NULLs are treated as in SQL:

==============================  ================================================================================
subquery                        what the outer rows are joined with
==============================  ================================================================================
not correlated                  the one row of the global aggregate
correlated by equalities        groups by the columns that are compared
correlated in any other way     groups by *domain*: the distinct values of the outer columns that it reads
==============================  ================================================================================

An aggregate over no rows has a value too (COUNT is 0, SUM is NULL), so every outer row needs a group, even if the
subquery finds nothing. That takes no outer join: the domain is added to the grouped rows, as rows that no aggregate
reads. It is left out if a condition rejects outer rows without a group, as ``x < (SELECT SUM(y) ...)`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field, aggregate_multiset
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conditions import conjunction, conjuncts, disjunction
from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Column,
    Literal,
    Named,
    Scalar,
    Subquery,
    column,
    is_nullable,
)
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, UnionAll
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    expressions,
    outer_columns,
    subqueries,
    substitute,
    walk_all,
    with_children,
    with_subqueries,
)
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered, without_nulls
from tidemill.compiler.analysis.null_rejection import is_null_over_nothing, is_strict_in
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.rewrites.definitions import Definitions
from tidemill.compiler.rewrites.subqueries.correlation import Equality, equalities
from tidemill.compiler.rewrites.subqueries.dependent_joins import (
    Domain,
    dependent,
    dependent_total,
    domain_of,
    join_back,
    padded,
    source_of,
)
from tidemill.model.types import BIGINT, BOOLEAN


def decorrelate(relation: Relation) -> Relation:
    """``relation`` without subqueries in its expressions; the same rows."""
    decorrelation = _Decorrelation(relation)
    return decorrelation.definitions.rewritten(relation, decorrelation.closed)


class _Decorrelation:
    """Works from the leaves to the root, and within a subquery from the outside in.

    So the relation that a subquery is joined to has no subqueries, and a nested subquery finds its outer columns in its
    own input once the subquery around it has been joined.
    """

    def __init__(self, relation: Relation) -> None:
        self._taken = {field.name.partition(".")[0] for node in walk_all(relation) for field in node.fields}
        self.definitions = Definitions(relation)

    def closed(self, node: Relation) -> Relation:
        """``node`` without subqueries, with the columns that it had."""
        node = with_children(node, [self.closed(child) for child in children(node)])
        if not any(subqueries(scalar) for scalar in expressions(node)):
            return node
        match node:
            case Filter(input=input_, condition=condition):
                return self._closed_filter(input_, condition)
            case Join(left=left, right=right, condition=condition) if condition is not None:
                plain = [part for part in conjuncts(condition) if not subqueries(part) and not may_fail(part)]
                rest = [part for part in conjuncts(condition) if part not in plain]
                return self._closed_filter(Join(left, right, conjunction(plain)), conjunction(rest) or condition)
        (input_,) = children(node)
        found = [subquery for scalar in expressions(node) for subquery in _values_in(scalar)]
        joined, values = self._attached(input_, input_, found, [])
        return self._without(with_children(node, [joined]), values)

    def _closed_filter(self, input_: Relation, condition: Scalar) -> Relation:
        parts = conjuncts(condition)
        shown = filtered(input_, *(part for part in parts if not subqueries(part) and not may_fail(part)))
        joined, values = self._attached(input_, shown, _values_in(condition), parts)
        found = self._without(Filter(joined, condition), values)
        return Project(found, tuple(Named(field.name, column(field)) for field in input_.fields))

    def _without(self, node: Relation, values: Mapping[Subquery, Scalar]) -> Relation:
        """``node`` with values in place of subqueries; the select list or HAVING of one may hold others in turn."""
        return self.closed(with_subqueries(node, values.__getitem__))

    def _attached(
        self, joined: Relation, shown: Relation, found: Sequence[Subquery], conditions: Sequence[Scalar]
    ) -> tuple[Relation, dict[Subquery, Scalar]]:
        """``joined`` with columns for all subqueries ``found``, and the expression that each of them becomes.

        ``shown`` has the outer rows for which they are evaluated, and ``conditions`` are those that the rows must
        fulfil.
        """
        values: dict[Subquery, Scalar] = {}
        for subquery in dict.fromkeys(found):
            rejecting = any(is_strict_in(condition, subquery) for condition in conditions)
            attachment = _Attachment(self, shown, rejecting, required=subquery in conditions)
            joined, values[subquery] = attachment.attach(joined, subquery.relation)
        return joined, values

    def alias(self, wish: str) -> str:
        """An alias that the query does not have yet."""
        alias = fresh(wish, self._taken)
        self._taken.add(alias)
        return alias


class _Attachment:
    """One subquery on its way into a join.

    ``rejecting``: outer rows for which it is NULL are filtered out. ``required``: only those for which it is true
    remain.
    """

    def __init__(self, decorrelation: _Decorrelation, shown: Relation, rejecting: bool, required: bool) -> None:
        self._closed = decorrelation.closed
        self._once = decorrelation.definitions.once
        self._shown = shown
        self._rejecting = rejecting
        self._required = required
        self._alias = decorrelation.alias("nested")
        self._domain_alias = decorrelation.alias("domain")

    def attach(self, joined: Relation, relation: Relation) -> tuple[Relation, Scalar]:
        """``joined`` with additional columns, and the value of ``relation`` as an expression over them."""
        value, total = _peeled(relation)
        if not isinstance(total, Aggregate) or total.keys:
            return self._attach_row(joined, relation)
        names: list[str] = []
        for call in total.aggregates:
            names.append(fresh(f"{self._alias}.{call.name.rpartition('.')[2]}", names))
        calls = tuple(replace(call, name=name) for call, name in zip(total.aggregates, names, strict=True))
        columns = {old.name: column(aggregate_field(new)) for old, new in zip(total.aggregates, calls, strict=True)}
        value = substitute(value, columns)
        total = replace(total, aggregates=calls)
        if _is_truth(value, names):
            return self._attach_truth(joined, total, value)
        sums = [column(aggregate_field(call)) for call in calls if _over_nothing(call).value is None]
        self._rejecting = self._rejecting and is_null_over_nothing(value, sums)
        return self._attach_total(joined, total, _GroupOutput.of(calls)), value

    def _attach_truth(self, joined: Relation, total: Aggregate, value: Scalar) -> tuple[Relation, Scalar]:
        """A truth value is computed in the groups, so that outer rows see no change while it stays the same.

        If it must be true, only the groups for which it is true are joined.
        """
        over_nothing = {call.name: _over_nothing(call) for call in total.aggregates}
        nothing = Literal(evaluate_scalar(substitute(value, over_nothing), {}), BOOLEAN)
        truth = Named(f"{self._alias}.truth", value)
        if not self._required:
            self._rejecting = self._rejecting and nothing.value is None
            return self._attach_total(joined, total, _GroupOutput((truth,), (nothing,))), column(truth.field)
        self._rejecting = nothing.value is not True
        return self._attach_total(joined, total, _GroupOutput((truth,), (nothing,), value)), Literal(True, BOOLEAN)

    def _attach_total(self, joined: Relation, total: Aggregate, output: _GroupOutput) -> Relation:
        """A global aggregate: by itself, by the columns of equalities, or by domain."""
        outer = outer_columns(total)
        if not outer:
            return Join(joined, self._closed(output.over(total)))
        taken = equalities(total.input)
        if taken is not None and all(outer.isdisjoint(columns_in(scalar)) for scalar in expressions(total)):
            return self._attach_groups(joined, replace(total, input=taken[0]), taken[1], output)
        domain = self._domain(outer)
        groups = dependent_total(total, domain, complete=not self._rejecting)
        return self._joined_back(joined, output.over(groups), domain)

    def _domain(self, outer: Collection[str]) -> Domain:
        """The values of outer columns that the subquery reads."""
        domain = domain_of(self._shown, outer, self._domain_alias)
        return replace(domain, relation=self._once(domain.relation))

    def _joined_back(self, joined: Relation, rows: Relation, domain: Domain) -> Relation:
        """``joined`` joined with groups by domain; both sides occur once for each pattern of NULLs."""
        return join_back(self._once(joined), self._once(self._closed(rows)), domain)

    def _attach_groups(
        self, joined: Relation, total: Aggregate, found: Sequence[Equality], output: _GroupOutput
    ) -> Relation:
        """Groups by the compared columns. NULL equals nothing, so rows with NULL need no group and find none."""
        keys = tuple(Named(f"{self._alias}.key_{i}", equality.inner) for i, equality in enumerate(found, 1))
        groups = Aggregate(without_nulls(total.input, [key.scalar for key in keys]), keys, total.aggregates)
        outer = [equality.outer for equality in found]
        equal = [Call("eq", (column(key.field), one), BOOLEAN) for key, one in zip(keys, outer, strict=True)]
        if self._rejecting:
            return Join(joined, self._closed(output.over(groups)), conjunction(equal))
        source = source_of(self._shown, set().union(*map(columns_in, outer)))
        shown = tuple(Named(key.name, one) for key, one in zip(keys, outer, strict=True))
        groups = padded(groups, Project(without_nulls(source, outer), shown))
        nullable = [one for one in outer if is_nullable(one)]
        joined = self._once(joined) if nullable else joined
        matched = Join(joined, self._closed(output.over(groups)), conjunction(equal))
        return _with_unknown(joined, matched, output, nullable)

    def _attach_row(self, joined: Relation, relation: Relation) -> tuple[Relation, Scalar]:
        """Any other relation of at most one row: by domain, with NULL for values for which it has no row."""
        domain = self._domain(outer_columns(relation))
        value = Named(f"{self._alias}.value", column(relation.fields[0]))
        rows: Relation = Project(dependent(relation, domain), (*domain.keys, value))
        if not self._rejecting:
            counted = AggregateCall(f"{self._alias}.rows", "count", None, BIGINT)
            counts = padded(Aggregate(rows, domain.keys, (counted,)), Project(domain.relation, domain.keys))
            none = Call("eq", (column(aggregate_field(counted)), Literal(0, BIGINT)), BOOLEAN)
            missing = Named(value.name, Literal(None, value.scalar.type))
            rows = UnionAll((rows, Project(Filter(counts, none), (*domain.keys, missing))))
        return self._joined_back(joined, rows, domain), Column(value.name, value.scalar.type)


@dataclass(frozen=True, slots=True)
class _GroupOutput:
    """The columns of a subquery's groups that outer rows read: ``outputs`` of the groups that fulfil ``condition``.

    ``over_nothing`` are the values of the outputs where the subquery finds no row.
    """

    outputs: tuple[Named, ...]
    over_nothing: tuple[Literal, ...]
    condition: Scalar | None = None

    @staticmethod
    def of(calls: Sequence[AggregateCall]) -> _GroupOutput:
        """The aggregates as they are."""
        outputs = tuple(Named(call.name, column(aggregate_field(call))) for call in calls)
        return _GroupOutput(outputs, tuple(map(_over_nothing, calls)))

    def over(self, groups: Aggregate) -> Relation:
        """The columns that outer rows read of ``groups``: their keys, then the outputs."""
        kept = filtered(groups, self.condition)
        keys = tuple(Named(key.name, column(key.field)) for key in groups.keys)
        shown = keys + self.outputs
        return kept if [o.name for o in shown] == [f.name for f in groups.fields] else Project(kept, shown)


def _over_nothing(call: AggregateCall) -> Literal:
    return Literal(aggregate_multiset(call, ()), call.of)


def _is_truth(value: Scalar, names: Collection[str]) -> bool:
    """True if ``value`` is a BOOLEAN over these aggregates alone that cannot fail."""
    alone = columns_in(value).issubset(names) and not subqueries(value)
    return value.type == BOOLEAN and alone and not may_fail(value)


def _values_in(scalar: Scalar) -> list[Subquery]:
    """The subqueries in ``scalar``; ``replace_quantifiers`` has left no EXISTS, IN, ANY or ALL."""
    return [found for found in subqueries(scalar) if isinstance(found, Subquery)]


def _peeled(relation: Relation) -> tuple[Scalar, Relation]:
    """The value of a subquery over the relation below its filters and projections; NULL where a filter is not true.

    A global aggregate below them has exactly one row, so a filter on it selects between its value and NULL.
    """
    values: dict[str, Scalar] = {}
    conditions: list[Scalar] = []
    value: Scalar = column(relation.fields[0])
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Filter):
            conditions.append(relation.condition)
        else:
            values = {output.name: output.scalar for output in relation.outputs}
            value = substitute(value, values)
            conditions = [substitute(condition, values) for condition in conditions]
        relation = relation.input
    # Conditions further down are evaluated first, since those above may fail without them.
    condition = conjunction(conditions[::-1])
    if condition is None:
        return value, relation
    return Case(((condition, value),), Literal(None, value.type), value.type), relation


def _with_unknown(joined: Relation, matched: Relation, output: _GroupOutput, nullable: Sequence[Scalar]) -> Relation:
    """``matched``, and the rows of ``joined`` in which one of ``nullable`` is NULL, which match nothing."""
    if not nullable:
        return matched
    kept = tuple(Named(field.name, column(field)) for field in joined.fields)
    found = tuple(Named(one.name, column(one.field)) for one in output.outputs)
    nothing = tuple(Named(one.name, value) for one, value in zip(output.outputs, output.over_nothing, strict=True))
    unknown = disjunction([Call("is_null", (scalar,), BOOLEAN) for scalar in nullable])
    return UnionAll((Project(matched, kept + found), Project(Filter(joined, unknown), kept + nothing)))
