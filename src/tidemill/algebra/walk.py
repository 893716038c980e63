"""One way to walk expressions and relations: the children of a node, and a node with its children changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from tidemill.algebra import relations as r
from tidemill.algebra.relations import Relation
from tidemill.algebra.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.model.types import BOOLEAN, DOUBLE, Decimal

Node = TypeVar("Node", Scalar, Relation)


@overload
def children(node: Scalar) -> tuple[Scalar, ...]: ...
@overload
def children(node: Relation) -> tuple[Relation, ...]: ...
def children(node: Scalar | Relation) -> tuple[Scalar, ...] | tuple[Relation, ...]:
    """The nodes directly below ``node``, of its own kind: expressions of an expression, inputs of a relation."""
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
    return ()


def _relations_below(node: Relation) -> tuple[Relation, ...]:
    match node:
        case r.Filter() | r.Project() | r.Aggregate() | r.Distinct():
            return (node.input,)
        case r.Join():
            return (node.left, node.right)
        case r.UnionAll():
            return node.inputs
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
    return node


def _with_relations(node: Relation, below: Sequence[Relation]) -> Relation:
    match node:
        case r.Filter() | r.Project() | r.Aggregate() | r.Distinct():
            return replace(node, input=below[0])
        case r.Join():
            return replace(node, left=below[0], right=below[1])
        case r.UnionAll():
            return replace(node, inputs=tuple(below))
    return node


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """``node`` with ``change`` applied to every node in it, children first."""
    before = children(node)
    after = tuple(transform(child, change) for child in before)
    return change(node if after == before else with_children(node, after))


def walk(node: Node) -> Iterator[Node]:
    """``node`` and everything below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def scans(relation: Relation) -> set[str]:
    """The names of the tables, streams and views that ``relation`` reads."""
    return {node.relation for node in walk(relation) if isinstance(node, r.Scan)}


def columns_in(scalar: Scalar) -> set[str]:
    """The names of the columns that ``scalar`` reads."""
    return {node.name for node in walk(scalar) if isinstance(node, Column)}


def is_nullable(scalar: Scalar) -> bool:
    """Whether ``scalar`` can be NULL. Errs towards yes.

    >>> from tidemill.model.types import INT
    >>> is_nullable(Column("id", INT, nullable=False)), is_nullable(Literal(None, INT))
    (False, True)
    """
    match scalar:
        case Column(nullable=nullable):
            return nullable
        case Literal(value=value):
            return value is None
        case Cast(input=input_, of=of, lenient=lenient):
            undefined = input_.type == DOUBLE and isinstance(of, Decimal)  # infinity and NaN become NULL
            return lenient or undefined or is_nullable(input_)
        case Case(branches=branches, default=default):
            return is_nullable(default) or any(is_nullable(value) for _, value in branches)
        case Call(function=name, arguments=arguments):
            from tidemill.algebra.functions import FUNCTIONS

            return FUNCTIONS[name].nullable([is_nullable(argument) for argument in arguments])
    return True


def conjuncts(scalar: Scalar) -> list[Scalar]:
    """The conditions that AND joins at the top of ``scalar``: all of them are true when it is."""
    match scalar:
        case Call(function="and", arguments=arguments):
            return [part for argument in arguments for part in conjuncts(argument)]
        case Literal(value=True):
            return []
    return [scalar]


def conjunction(conditions: Sequence[Scalar]) -> Scalar | None:
    """All ``conditions`` joined by AND; None for none at all."""
    result: Scalar | None = None
    for condition in conditions:
        result = condition if result is None else Call("and", (result, condition), BOOLEAN)
    return result


def substitute(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """``scalar`` with the expressions of ``values`` in place of the columns of those names."""

    def replaced(node: Scalar) -> Scalar:
        return values.get(node.name, node) if isinstance(node, Column) else node

    return transform(scalar, replaced)
