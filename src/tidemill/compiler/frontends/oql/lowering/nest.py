"""Nests as groups: every binding of the grouping variables is a group, even if nothing is found for it.

The rows of a group are those that the operators of the nest find, and the binding itself with NULL arguments, which
aggregates ignore. This replaces the outer joins and unnests of the monoid algebra, and is cheaper, since no missing
partner has to be detected. Nests over the same variables that do not read each other share one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational import relations as r
from tidemill.compiler.frontends.oql.algebra.operators import Nest, NestValue, Operator, walk
from tidemill.compiler.frontends.oql.lowering.bindings import BoundRows, BoundValue, Demand, demands_of, of_value
from tidemill.compiler.frontends.oql.lowering.lower_terms import TermLowering
from tidemill.compiler.frontends.oql.lowering.monoid_aggregates import aggregate_argument, monoid_aggregate


def from_nest(lowering: TermLowering, tree: Nest, above: frozenset[Demand]) -> BoundRows:
    """A nest, and those directly below it with which it can share groups."""
    if not tree.groups:
        return group_by_keys(lowering, tree, above)
    nests = siblings(lowering, tree)
    base = base_of(nests[-1])
    read = above.union(*(demands_of(node.terms) for node in between(tree, base)))
    around = lowering.rows(base, read)
    # The value of a sibling of a nest around this one is not bound here, and not read.
    around = replace(around, bound={v.name: around.bound[v.name] for v in nests[-1].groups if v.name in around.bound})
    if all(bound.keys is not None for bound in around.bound.values()):
        return group_by_variables(lowering, nests, around, above)
    return group_by_values(lowering, nests, around, read)


def group_by_keys(lowering: TermLowering, tree: Nest, above: frozenset[Demand]) -> BoundRows:
    """GROUP BY: a group for each existing combination of keys."""
    rows = lowering.prepared(lowering.rows(tree.input, above | demands_of(tree.terms)), tree.terms)
    keys, calls, bound = list[Named](), [], dict[str, BoundValue]()
    for variable, term in tree.keys:
        keys.append(Named(lowering.names.take(variable.name.lower()), lowering.scalar(term, rows)))
        key = column(keys[-1].field)
        bound[variable.name] = of_value(key, variable.type, (key,))
    for made in tree.made:
        head, *order = arguments(lowering, made, rows)
        conditions = lowering.scalars(made.predicates, rows)
        name = lowering.names.take(made.variable.name.lower())
        one, value = monoid_aggregate(name, made.monoid, head, conditions, _directed(made, order))
        calls.append(one)
        bound[made.variable.name] = of_value(value, made.variable.type, ())
    return BoundRows(r.Aggregate(rows.relation, tuple(keys), tuple(calls)), bound)


def group_by_variables(
    lowering: TermLowering, nests: Sequence[Nest], around: BoundRows, above: frozenset[Demand]
) -> BoundRows:
    """A group for each binding of variables that have keys."""
    keys = {one.name: one for name, bound in around.bound.items() for one in bound.columns(name, above)}
    found = [(nest, *_found(lowering, nest, around, above | _read_of(around.bound, keys))) for nest in nests]
    columns = [[Column(lowering.names.take("given"), one.type) for one in given] for _, _, given in found]
    nothing = [[Literal(None, one.of) for one in each] for each in columns]
    parts = [_part(around.relation, keys, columns, nothing)]
    for position, (_, relation, given) in enumerate(found):
        own: list[Sequence[Scalar]] = [*nothing[:position], given, *nothing[position + 1 :]]
        parts.append(_part(relation, keys, columns, own))
    calls, bound = [], dict(around.bound)
    for (nest, _, _), (head, *order) in zip(found, columns, strict=True):
        (made,) = nest.made
        name = lowering.names.take(made.variable.name.lower())
        one, value = monoid_aggregate(name, made.monoid, head, (), _directed(made, order))
        calls.append(one)
        bound[made.variable.name] = of_value(value, made.variable.type, ())
    named = tuple(Named(name, one) for name, one in keys.items())
    return BoundRows(r.Aggregate(r.UnionAll(tuple(parts)), named, tuple(calls)), bound)


def group_by_values(
    lowering: TermLowering, nests: Sequence[Nest], around: BoundRows, read: frozenset[Demand]
) -> BoundRows:
    """Bindings without keys, such as rows of a view: equal ones share one group, which is joined back."""
    columns = {name: bound.columns(name, read) for name, bound in around.bound.items()}
    originals = {one.name: one for each in columns.values() for one in each}
    alias = lowering.names.take("like")
    copies = {name: replace(one, name=f"{alias}.{name}") for name, one in originals.items()}
    outputs = tuple(Named(copy.name, originals[name]) for name, copy in copies.items())
    bound = {name: b.copied(copies, [copies[one.name] for one in columns[name]]) for name, b in around.bound.items()}
    made = group_by_variables(lowering, nests, BoundRows(r.Distinct(r.Project(around.relation, outputs)), bound), read)
    same = [call("null_safe_eq", originals[name], copy) for name, copy in copies.items()]
    relation = r.Join(around.relation, made.relation, conjunction(same))
    return BoundRows(relation, {**made.bound, **around.bound}, around.followed)


def siblings(lowering: TermLowering, tree: Nest) -> list[Nest]:
    """The nest, and those below it over the same variables whose values it does not read."""
    found, base = [tree], base_of(tree)
    while isinstance(base, Nest) and base.groups and id(base) not in lowering.given:
        read = {name for node in between(tree, base) for name, _ in demands_of(node.terms)}
        if any(made.variable.name in read for made in base.made):
            break
        found.append(base)
        base = base_of(base)
    return found


def base_of(nest: Nest) -> Operator:
    """The operator below ``nest`` that binds just the variables by which it groups."""
    node, groups = nest.input, set(nest.groups)
    while set(node.variables) != groups and node.inputs:
        node = node.inputs[0]
    return node


def between(tree: Operator, base: Operator) -> Iterator[Operator]:
    """The operators from ``tree`` down to ``base``, and those beside them, without ``base``."""
    below = set(map(id, walk(base)))
    return (node for node in walk(tree) if id(node) not in below)


def arguments(lowering: TermLowering, made: NestValue, rows: BoundRows) -> list[Scalar]:
    """The argument of the aggregate, and the terms that it is ordered by."""
    head = aggregate_argument(made.monoid, lowering.scalar(made.head, rows))
    return [head, *lowering.scalars([term for term, _ in made.order], rows)]


def _directed(made: NestValue, order: Sequence[Scalar]) -> list[tuple[Scalar, bool]]:
    return [(one, descending) for one, (_, descending) in zip(order, made.order, strict=True)]


def _found(
    lowering: TermLowering, nest: Nest, around: BoundRows, above: frozenset[Demand]
) -> tuple[Relation, list[Scalar]]:
    """The rows that the operators of ``nest`` find for the outer bindings, and its aggregate's arguments."""
    lowering.given[id(base_of(nest))] = around
    rows = lowering.prepared(lowering.rows(nest.input, above | demands_of(nest.terms)), nest.terms)
    (made,) = nest.made
    return rows.filtered(lowering.scalars(made.predicates, rows)).relation, arguments(lowering, made, rows)


def _read_of(stay: Mapping[str, BoundValue], keys: dict[str, Column]) -> frozenset[Demand]:
    """The members that are among the keys of the groups: an inner nest keeps them for an outer one."""
    return frozenset(
        (name, m) for name, bound in stay.items() for m, one in bound.members.items() if one in keys.values()
    )


def _part(
    relation: Relation, keys: dict[str, Column], columns: Sequence[Sequence[Column]], given: Sequence[Sequence[Scalar]]
) -> Relation:
    """Some of the rows of the groups: their keys, and the arguments of the aggregates."""
    named = [Named(name, one) for name, one in keys.items()]
    for each, scalars in zip(columns, given, strict=True):
        named += [Named(shown.name, one) for shown, one in zip(each, scalars, strict=True)]
    return r.Project(relation, tuple(named))
