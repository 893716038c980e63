"""Dependent joins: a correlated relation computed for all outer values at once (Neumann and Kemper).

A *domain* holds the distinct values of the outer columns that a subquery reads. ``dependent(relation, domain)`` is the
union of ``relation`` over all values, each row with its value. There is one rule for each node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Exists, Literal, Named, Scalar, column, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    OuterJoin,
    Project,
    Repeat,
    TopK,
    UnionAll,
    Unnest,
    Values,
    Window,
)
from tidemill.algebra.relational.walk import (
    columns_in,
    expressions,
    outer_columns,
    subqueries,
    substitute,
    walk,
    with_children,
    with_expressions,
)
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.analysis.rename import fresh, rename
from tidemill.compiler.rewrites.cogroup import Share, cogroup
from tidemill.model.types import BOOLEAN

NULL_PATTERNS = 2
"""Number of nullable columns of a domain up to which they are joined by index: each doubles the number of joins."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Distinct values of outer columns; ``columns`` maps these to the columns of ``relation``."""

    alias: str
    relation: Relation
    columns: Mapping[str, Column]

    @property
    def keys(self) -> tuple[Named, ...]:
        """Its columns under their own names."""
        return tuple(Named(own.name, own) for own in self.columns.values())

    def on(self, scalar: Scalar) -> Scalar:
        """``scalar`` with the domain's columns in place of the outer ones."""
        return substitute(scalar, self.columns)

    def named(self, alias: str) -> Domain:
        """The same values under other names."""
        names = [f"{alias}.{own.name.rpartition('.')[2]}" for own in self.columns.values()]
        relation = rename(self.relation, names)
        return Domain(alias, relation, dict(zip(self.columns, map(column, relation.fields), strict=True)))


def domain_of(relation: Relation, outer: Collection[str], alias: str) -> Domain:
    """The values of the columns ``outer`` in ``relation``, and possibly others; without columns, one row."""
    if not outer:
        return Domain(alias, Values(((),), ()), {})
    source = source_of(relation, outer)
    fields = [field for field in source.fields if field.name in outer]
    names: list[str] = []
    for field in fields:
        names.append(fresh(f"{alias}.{field.name.rpartition('.')[2]}", names))
    shown = Project(source, tuple(Named(name, column(field)) for name, field in zip(names, fields, strict=True)))
    own = map(column, shown.fields)
    return Domain(alias, Distinct(shown), dict(zip((field.name for field in fields), own, strict=True)))


def source_of(relation: Relation, outer: Collection[str]) -> Relation:
    """The smallest part of ``relation`` that has the columns ``outer``, with at least their values in ``relation``.

    Joins above it can only remove values, and the group of a surplus value is never read.
    """
    match relation:
        case Filter(input=input_, condition=condition):
            below = source_of(input_, outer)
            known = {field.name for field in below.fields}
            kept = conjunction([c for c in conjuncts(condition) if columns_in(c) <= known and not may_fail(c)])
            return filtered(below, kept)
        case Join(left=left, right=right):
            for side in (left, right):
                if {field.name for field in side.fields}.issuperset(outer):
                    return source_of(side, outer)
        case Project(input=input_, outputs=outputs):
            wanted = [output for output in outputs if output.name in outer]
            if all(isinstance(output.scalar, Column) for output in wanted):
                below = source_of(input_, {name for output in wanted for name in columns_in(output.scalar)})
                return Project(below, tuple(wanted))
    return relation


def part_with(relation: Relation, outer: Collection[str]) -> Relation:
    """The part of ``relation`` that ``source_of`` returns, without the filters and projections above it."""
    match relation:
        case Filter(input=input_):
            return part_with(input_, outer)
        case Join(left=left, right=right):
            for side in (left, right):
                if {field.name for field in side.fields}.issuperset(outer):
                    return part_with(side, outer)
        case Project(input=input_, outputs=outputs):
            wanted = [output.scalar for output in outputs if output.name in outer]
            if all(isinstance(scalar, Column) for scalar in wanted):
                return part_with(input_, set().union(*map(columns_in, wanted)))
    return relation


# ------------------------------------------------------------------------------------------------------ one rule each


def dependent(node: Relation, domain: Domain) -> Relation:
    """The rows of ``node`` for each value of ``domain``: the domain's columns, then those of ``node``."""
    if not outer_columns(node):
        return domain.relation if node == Values(((),), ()) else Join(domain.relation, node)
    match node:
        case Filter(input=input_, condition=condition):
            return Filter(dependent(input_, domain), domain.on(condition))
        case Project(input=input_, outputs=outputs):
            shown = tuple(Named(output.name, domain.on(output.scalar)) for output in outputs)
            return Project(dependent(input_, domain), domain.keys + shown)
        case Join():
            return dependent_join(node, domain)
        case OuterJoin():
            return dependent_outer_join(node, domain)
        case Intersect() | Except():
            return replace(node, left=dependent(node.left, domain), right=dependent(node.right, domain))
        case UnionAll(inputs=inputs):
            return UnionAll(tuple(dependent(part, domain) for part in inputs))
        case Distinct(input=input_):
            return Distinct(dependent(input_, domain))
        case Repeat() | Unnest():
            return _row_by_row(node, domain)
        case TopK() | Window() | Match():
            return _part_by_part(node, domain)
        case Aggregate(keys=()):
            return dependent_total(node, domain)
        case Aggregate():
            keys = tuple(Named(key.name, domain.on(key.scalar)) for key in node.keys)
            return Aggregate(dependent(node.input, domain), domain.keys + keys, _calls_on(node, domain))
    raise TypeError(f"{type(node).__name__} reads no outer column")


def _row_by_row(node: Repeat | Unnest, domain: Domain) -> Relation:
    shown = with_expressions(node, map(domain.on, expressions(node)))
    return with_children(shown, [dependent(node.input, domain)])


def _part_by_part(node: TopK | Window | Match, domain: Domain) -> Relation:
    """Ordered nodes: the rows for each outer value are a partition."""
    shown = with_expressions(node, map(domain.on, expressions(node)))
    assert isinstance(shown, TopK | Window | Match)
    values = tuple(domain.columns.values())
    return replace(shown, input=dependent(node.input, domain), partition=values + shown.partition)


def dependent_join(join: Join, domain: Domain) -> Relation:
    """A side that reads no outer column is joined as it is; two dependent sides are joined on equal values."""
    conditions = [] if join.condition is None else [domain.on(join.condition)]
    if not outer_columns(join.right):
        return Join(dependent(join.left, domain), join.right, conjunction(conditions))
    other = domain.named(f"{domain.alias}'")
    left = dependent(join.left, domain) if outer_columns(join.left) else join.left
    right = dependent(join.right, other if left is not join.left else domain)
    if left is not join.left:
        pairs = zip(domain.columns.values(), other.columns.values(), strict=True)
        conditions += [_same(one, two) for one, two in pairs]
    both = Join(left, right, conjunction(conditions))
    return Project(both, domain.keys + tuple(Named(f.name, column(f)) for f in join.fields))


def dependent_outer_join(join: OuterJoin, domain: Domain) -> Relation:
    """The preserved side has the values; the other side reads no outer column (see ``misplaced_correlation``)."""
    left = dependent(join.left, domain) if join.keeps_left else join.left
    right = dependent(join.right, domain) if join.keeps_right else join.right
    condition = None if join.condition is None else domain.on(join.condition)
    both = replace(join, left=left, right=right, condition=condition)
    return Project(both, domain.keys + tuple(Named(f.name, column(f)) for f in join.fields))


def misplaced_correlation(relation: Relation) -> bool:
    """True if an outer join in ``relation`` reads outer columns where Spark refuses them, or errs.

    That is below a side whose rows may be missing, and anywhere in a full join.
    """
    for node in walk(relation):
        if isinstance(node, OuterJoin):
            full = node.keeps_left and node.keeps_right
            missing = [node] if full else [node.right if node.keeps_left else node.left]
            if any(map(outer_columns, missing)):
                return True
    return False


def dependent_total(node: Aggregate, domain: Domain, complete: bool = True) -> Aggregate:
    """A global aggregate for each value; unless ``complete``, only for values that have rows."""
    rows = dependent(node.input, domain)
    calls = _calls_on(node, domain)
    if not complete:
        return Aggregate(rows, domain.keys, calls)
    return padded(Aggregate(rows, domain.keys, calls), Project(domain.relation, domain.keys))


def padded(groups: Aggregate, keys: Relation) -> Aggregate:
    """``groups`` with a group for each row of ``keys`` as well, over no rows if it is new; keys may repeat."""
    names = [key.name for key in groups.keys]
    kept = tuple(Named(name, column(field)) for name, field in zip(names, keys.fields, strict=True))
    return cogroup([Share(groups.input, groups.keys, groups.aggregates), Share(keys, kept)])


def _calls_on(node: Aggregate, domain: Domain) -> tuple[AggregateCall, ...]:
    return tuple(total.over(map(domain.on, total.scalars)) for total in node.aggregates)


# ------------------------------------------------------------------------------------------------------------- lateral


def lateral_join(left: Relation, right: Relation, alias: str) -> Relation:
    """Each row of ``left`` with the rows that ``right`` has for it: the columns of both.

    Where ``right`` is made row by row its nodes are put above ``left``, which costs nothing; else it is computed for
    the distinct values of the columns that it reads, and joined back. ``alias`` is for these values.
    """
    read = _read_of(left, right)
    if not read and not outer_columns(right):
        return Join(left, right)
    if is_row_by_row(right):
        return dependent(right, Domain(alias, left, {f.name: column(f) for f in left.fields}))
    domain = domain_of(left, read, alias)
    return _shown(join_back(left, dependent(right, domain), domain), left, right)


def lateral_left_join(left: Relation, right: Relation, condition: Scalar | None, alias: str) -> Relation:
    """Like ``lateral_join``, of the pairs for which ``condition`` is true; rows of ``left`` without any stay."""
    if (hoisted := _hoisted(right)) is not None:
        rows, correlation = hoisted
        conditions = [part for part in (correlation, condition) if part is not None]
        return _shown(OuterJoin(left, rows, conjunction(conditions), True, False), left, right)
    pairs = filtered(lateral_join(left, right, alias), condition)
    alone = Filter(left, Call("not", (Exists(filtered(right, condition)),), BOOLEAN))
    kept = tuple(Named(f.name, column(f)) for f in left.fields)
    return UnionAll((pairs, Project(alone, kept + tuple(Named(f.name, Literal(None, f.type)) for f in right.fields))))


def is_row_by_row(node: Relation) -> bool:
    """True if ``node`` computes its rows for each outer row apart, as nothing is grouped or ranked."""
    if not outer_columns(node):
        return True
    match node:
        case Filter(input=input_) | Project(input=input_) | Repeat(input=input_) | Unnest(input=input_):
            return is_row_by_row(input_)
        case Join(left=left, right=right):
            return any(not outer_columns(one) and is_row_by_row(two) for one, two in ((left, right), (right, left)))
        case UnionAll(inputs=inputs):
            return all(map(is_row_by_row, inputs))
    return False


def _read_of(left: Relation, right: Relation) -> set[str]:
    """The columns of ``left`` that ``right`` reads."""
    return outer_columns(right) & {field.name for field in left.fields}


def _hoisted(right: Relation) -> tuple[Relation, Scalar | None] | None:
    """``right`` without the filter at its top, and its condition, where nothing else reads outer columns."""
    if not outer_columns(right):
        return right, None
    match right:
        case Project(input=Filter(input=input_, condition=condition), outputs=outputs):
            shown = Project(input_, outputs)
            scalars = [condition, *(output.scalar for output in outputs)]
            if outer_columns(shown) or any(may_fail(scalar) or subqueries(scalar) for scalar in scalars):
                return None
            names = columns_in(condition) & {f.name for f in input_.fields} - {o.name for o in outputs}
            added = tuple(Named(f.name, column(f)) for f in input_.fields if f.name in names)
            return replace(shown, outputs=outputs + added), condition
    return None


def _shown(rows: Relation, left: Relation, right: Relation) -> Relation:
    """``rows`` with the columns of ``left`` and ``right`` only."""
    names = [f.name for side in (left, right) for f in side.fields]
    fields = {f.name: f for f in rows.fields}
    if list(fields) == names:
        return rows
    return Project(rows, tuple(Named(name, column(fields[name])) for name in names))


# ------------------------------------------------------------------------------------------------------- joining back


def join_back(left: Relation, right: Relation, domain: Domain) -> Relation:
    """Each row of ``left`` joined with the row of ``right`` for its value of the domain, where NULL equals NULL.

    An index finds no NULL, so each nullable column doubles the joins: one for NULL, one for other values.
    """
    fields = {field.name: column(field) for field in left.fields}
    pairs = [(fields[outer], own) for outer, own in domain.columns.items()]
    patterns: list[list[Scalar]] = [[]]
    nullable = 0
    for one, two in pairs:
        nullable += is_nullable(one)
        if is_nullable(one) and nullable <= NULL_PATTERNS:
            either = [Call("eq", (one, two), BOOLEAN)], [Call("is_null", (side,), BOOLEAN) for side in (one, two)]
            patterns = [[*pattern, *part] for pattern in patterns for part in either]
        else:
            patterns = [[*pattern, _same(one, two)] for pattern in patterns]
    joins = tuple(Join(left, right, conjunction(pattern)) for pattern in patterns)
    return joins[0] if len(joins) == 1 else UnionAll(joins)


def _same(one: Scalar, two: Scalar) -> Scalar:
    return Call("null_safe_eq" if is_nullable(one) or is_nullable(two) else "eq", (one, two), BOOLEAN)
