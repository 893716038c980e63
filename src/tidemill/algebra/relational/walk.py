"""Traversal of expressions and relations: the children of a node, and a node with other children.

A subquery in an expression is the one place where the two kinds meet. The children of a ``Subquery`` are all
expressions inside it, so a traversal of expressions includes it. Column names are unique in the whole query, so an
outer column is never confused with an inner one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar, overload

from tidemill.algebra.expressions.scalars import (
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Lambda,
    Literal,
    Named,
    Quantified,
    Scalar,
    Subquery,
)
from tidemill.algebra.node import Relation, memoized
from tidemill.algebra.relational import relations as r
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.windows import WindowCall

AnyNode = TypeVar("AnyNode", Scalar, Relation)

PLAIN: frozenset[type] = frozenset((Column, Literal))
"""Most expressions are one of these leaves. They are recognised by their exact type, as that is fast."""

SubqueryExpression = Subquery | Exists | Quantified
"""The expressions that hold a relation."""


@overload
def children(node: Scalar) -> tuple[Scalar, ...]: ...
@overload
def children(node: Relation) -> tuple[Relation, ...]: ...
def children(node: Scalar | Relation) -> tuple[Scalar, ...] | tuple[Relation, ...]:
    """The nodes directly below ``node``, of its own kind: expressions of an expression, inputs of a relation."""
    if type(node) in PLAIN:
        return ()
    if isinstance(node, Scalar):
        return _scalars_below(node)
    return _relations_below(node)


def _scalars_below(node: Scalar) -> tuple[Scalar, ...]:
    match node:
        case Call():
            return node.arguments
        case Cast():
            return (node.input,)
        case Case():
            return (*(part for branch in node.branches for part in branch), node.default)
        case Lambda():
            return (node.body,)
        case Subquery() | Exists():
            return tuple(scalar for below in walk(node.relation) for scalar in expressions(below))
        case Quantified():
            return (node.condition, *(scalar for below in walk(node.relation) for scalar in expressions(below)))
    return ()


def _relations_below(node: Relation) -> tuple[Relation, ...]:
    if isinstance(node, r.Unary):
        return (node.input,)
    if isinstance(node, r.Binary):
        return (node.left, node.right)
    match node:
        case r.UnionAll():
            return node.inputs
        case r.With():
            return (*(relation for _, relation in node.definitions), node.body)
        case r.Recursive():
            return (node.base, node.step)
        case TimePartitioned():
            # The bodies are programs of their own, over slices: nothing outside refers into them.
            return tuple(feed.rows for feed in node.feeds)
    return ()


@overload
def with_children(node: Scalar, below: Sequence[Scalar]) -> Scalar: ...
@overload
def with_children(node: Relation, below: Sequence[Relation]) -> Relation: ...
def with_children(node: Scalar | Relation, below: Sequence[Any]) -> Scalar | Relation:
    """``node`` with ``below`` in place of its children, in the order in which ``children`` gives them."""
    if isinstance(node, Scalar):
        return _with_scalars(node, below)
    return _with_relations(node, below)


def _with_scalars(node: Scalar, below: Sequence[Scalar]) -> Scalar:
    match node:
        case Call():
            return replace(node, arguments=tuple(below))
        case Cast():
            return replace(node, input=below[0])
        case Case():
            pairs = tuple(zip(below[:-1:2], below[1:-1:2], strict=True))
            return replace(node, branches=pairs, default=below[-1])
        case Lambda():
            return replace(node, body=below[0])
        case Subquery() | Exists():
            return replace(node, relation=_with_all_expressions(node.relation, iter(below)))
        case Quantified():
            relation = _with_all_expressions(node.relation, iter(below[1:]))
            return replace(node, condition=below[0], relation=relation)
    return node


def _with_relations(node: Relation, below: Sequence[Relation]) -> Relation:
    if isinstance(node, r.Unary):
        return replace(node, input=below[0])
    if isinstance(node, r.Binary):
        return replace(node, left=below[0], right=below[1])
    match node:
        case r.UnionAll():
            return replace(node, inputs=tuple(below))
        case r.With():
            names = (name for name, _ in node.definitions)
            return r.With(tuple(zip(names, below[:-1], strict=True)), below[-1])
        case r.Recursive():
            return replace(node, base=below[0], step=below[1])
        case TimePartitioned():
            feeds = zip(node.feeds, below, strict=True)
            return replace(node, feeds=tuple(replace(feed, rows=rows) for feed, rows in feeds))
    return node


def expressions(node: Relation) -> tuple[Scalar, ...]:
    """The expressions of ``node`` itself, those of its inputs left out."""
    match node:
        case r.Filter():
            return (node.condition,)
        case r.Join() | r.OuterJoin():
            return () if node.condition is None else (node.condition,)
        case r.Project():
            return tuple(output.scalar for output in node.outputs)
        case r.Aggregate():
            return (*(key.scalar for key in node.keys), *(part for call in node.aggregates for part in call.scalars))
        case r.Unnest():
            return (node.array,)
        case r.Repeat():
            return (node.times,)
        case r.TopK():
            return (*node.partition, *(term.scalar for term in node.order))
        case r.Window():
            calls = (part for call in node.calls for part in _of_window(call))
            return (*node.partition, *(term.scalar for term in node.order), *calls)
        case Match():
            return (*node.partition, *(term.scalar for term in node.order), *node.navigation_arguments)
    return ()


def _of_window(call: WindowCall) -> tuple[Scalar, ...]:
    return call.arguments if call.filter is None else (*call.arguments, call.filter)


def with_expressions(node: Relation, scalars: Iterator[Scalar]) -> Relation:
    """``node`` with the next of ``scalars`` in place of its expressions, in the order in which these are given."""
    match node:
        case r.Filter():
            return replace(node, condition=next(scalars))
        case r.Join() | r.OuterJoin():
            return node if node.condition is None else replace(node, condition=next(scalars))
        case r.Project():
            return replace(node, outputs=tuple(Named(output.name, next(scalars)) for output in node.outputs))
        case r.Aggregate():
            keys = tuple(Named(key.name, next(scalars)) for key in node.keys)
            return replace(node, keys=keys, aggregates=tuple(call.over(scalars) for call in node.aggregates))
        case r.Unnest():
            return replace(node, array=next(scalars))
        case r.Repeat():
            return replace(node, times=next(scalars))
        case r.TopK() | r.Window() | Match():
            return _with_window_expressions(node, scalars)
    return node


def _with_window_expressions(node: r.TopK | r.Window | Match, scalars: Iterator[Scalar]) -> Relation:
    partition = tuple(next(scalars) for _ in node.partition)
    order = tuple(replace(term, scalar=next(scalars)) for term in node.order)
    changed = replace(node, partition=partition, order=order)
    if isinstance(changed, r.TopK):
        return changed
    if isinstance(changed, Match):
        return changed.with_navigation_arguments(scalars)
    calls = []
    for call in changed.calls:
        arguments = tuple(next(scalars) for _ in call.arguments)
        calls.append(replace(call, arguments=arguments, filter=None if call.filter is None else next(scalars)))
    return replace(changed, calls=tuple(calls))


def _with_all_expressions(node: Relation, scalars: Iterator[Scalar]) -> Relation:
    """``node`` with ``scalars`` in place of all expressions in it, parents first."""
    changed = with_expressions(node, scalars)
    return with_children(changed, [_with_all_expressions(child, scalars) for child in children(node)])


def transform(node: AnyNode, change: Callable[[AnyNode], AnyNode]) -> AnyNode:
    """``node`` with ``change`` applied to every node in it, children first; to relations in subqueries, too."""
    if type(node) in PLAIN:
        return change(node)
    node = node if isinstance(node, Scalar) else _transform_subqueries(node, change)
    before = children(node)
    after = tuple(transform(child, change) for child in before)
    return change(node if all(map(is_, after, before)) else with_children(node, after))


def _transform_subqueries(node: Any, change: Callable[[Any], Any]) -> Any:
    return with_subqueries(node, lambda subquery: replace(subquery, relation=transform(subquery.relation, change)))


def with_subqueries(relation: Relation, change: Callable[[Any], Scalar]) -> Relation:
    """``relation`` with ``change`` applied to the subqueries in its own expressions, but not to nested ones.

    The condition of a ``Quantified`` may hold subqueries, too; they are changed before it.
    """

    def changed(scalar: Scalar) -> Scalar:
        if isinstance(scalar, Quantified):
            return change(replace(scalar, condition=changed(scalar.condition)))
        if isinstance(scalar, SubqueryExpression):
            return change(scalar)
        below = children(scalar)
        return with_children(scalar, [changed(child) for child in below]) if below else scalar

    if not any(subqueries(scalar) for scalar in expressions(relation)):
        return relation
    return with_expressions(relation, map(changed, expressions(relation)))


def subqueries(scalar: Scalar) -> list[SubqueryExpression]:
    """The subqueries in ``scalar``, from left to right; those within them are not listed."""
    if type(scalar) in PLAIN:
        return []
    if isinstance(scalar, Quantified):
        return [scalar, *subqueries(scalar.condition)]
    if isinstance(scalar, SubqueryExpression):
        return [scalar]
    return [found for child in children(scalar) for found in subqueries(child)]


def walk(node: AnyNode) -> Iterator[AnyNode]:
    """``node`` and everything of its kind below it, parents first."""
    pending: list[Any] = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def walk_all(relation: Relation) -> Iterator[Relation]:
    """``relation`` and everything below it, parents first, the relations in subqueries included."""
    for node in walk(relation):
        yield node
        for scalar in expressions(node):
            for subquery in subqueries(scalar):
                yield from walk_all(subquery.relation)


def scans(relation: Relation) -> set[str]:
    """The names of the tables, streams and views that ``relation`` reads."""
    nodes = list(walk_all(relation))
    own = {node.name for node in nodes if isinstance(node, r.Recursive)}
    own.update(name for node in nodes if isinstance(node, r.With) for name, _ in node.definitions)
    return {node.relation for node in nodes if isinstance(node, r.Scan)} - own


def columns_in(scalar: Scalar) -> set[str]:
    """The names of the columns that ``scalar`` reads: for a subquery, the outer ones."""
    match scalar:
        case Column(name=name):
            return {name}
        case Lambda(parameters=parameters, body=body):
            return columns_in(body) - {parameter.name for parameter in parameters}
        case Subquery(relation=relation) | Exists(relation=relation):
            return outer_columns(relation)
        case Quantified(relation=relation, condition=condition):
            return outer_columns(relation) | columns_in(condition) - {f.name for f in relation.fields}
    return set().union(*map(columns_in, children(scalar)))


def outer_columns(relation: Relation) -> set[str]:
    """The columns that expressions in ``relation`` read and no node in it provides: the correlation of a subquery."""
    read, bound = _read_and_bound(relation)
    return set(read - bound)


@memoized
def _read_and_bound(relation: Relation) -> tuple[frozenset[str], frozenset[str]]:
    """The columns that expressions in ``relation`` read, and those that a node in it provides."""
    below = [_read_and_bound(child) for child in children(relation)]
    own = (field.name for field in relation.fields)
    read = frozenset().union(*(read for read, _ in below), *map(columns_in, expressions(relation)))
    return read, frozenset().union(*(bound for _, bound in below), own)


def substitute(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """``scalar`` with the expressions of ``values`` in place of the columns of those names."""

    def replaced(node: Scalar) -> Scalar:
        return values.get(node.name, node) if isinstance(node, Column) else node

    return transform(scalar, replaced)
