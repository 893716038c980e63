"""Which relations are the same but for their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from tidemill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    UnionAll,
    Values,
)
from tidemill.algebra.scalars import Column, Named, Scalar, Subquery
from tidemill.algebra.walk import children, with_children

Names = dict[str, str]
"""How the columns of a node are called: old name to canonical name."""


def canonical(relation: Relation) -> Relation:
    """``relation`` under names that follow from its shape alone, so that equal meaning by equal steps compares equal.

    A common table expression that is used twice comes out of the front end as two trees with different aliases. They
    are one stage: found by ``==`` on canonical trees, at the cost of one walk.

    >>> canonical(Scan("orders", "a", ())) == canonical(Scan("orders", "b", ()))
    True
    """
    return _Namer(count(), {}).name(relation)[0]


class _Namer:
    """Numbers the columns in the order in which a walk from the left meets them; ``outer`` are those around them."""

    def __init__(self, numbers: Iterator[int], outer: Mapping[str, str]) -> None:
        self._numbers = numbers
        self._outer = outer

    def name(self, node: Relation) -> tuple[Relation, Names]:
        match node:
            case Scan():
                return self._name_scan(node)
            case Filter():
                below, names = self.name(node.input)
                return Filter(below, self._renamed(node.condition, names)), names
            case Project():
                return self._name_project(node)
            case Join():
                return self._name_join(node)
            case UnionAll():
                parts = [self.name(part) for part in node.inputs]
                return UnionAll(tuple(part for part, _ in parts)), parts[0][1]
            case Aggregate():
                return self._name_aggregate(node)
            case Distinct():
                below, names = self.name(node.input)
                return Distinct(below), names
            case Values():
                fields = tuple(replace(f, name=self._next()) for f in node.columns)
                named = Values(node.rows, fields)
                return named, _between(node, named)
        raise TypeError(f"{type(node).__name__} has no canonical form")

    def _name_scan(self, scan: Scan) -> tuple[Relation, Names]:
        named = Scan(scan.relation, self._next(), scan.columns)
        return named, _between(scan, named)

    def _name_project(self, project: Project) -> tuple[Relation, Names]:
        below, names = self.name(project.input)
        outputs = tuple(Named(self._next(), self._renamed(output.scalar, names)) for output in project.outputs)
        named = Project(below, outputs)
        return named, _between(project, named)

    def _name_join(self, join: Join) -> tuple[Relation, Names]:
        left, left_names = self.name(join.left)
        right, right_names = self.name(join.right)
        names = left_names | right_names
        condition = None if join.condition is None else self._renamed(join.condition, names)
        return Join(left, right, condition), names

    def _name_aggregate(self, aggregate: Aggregate) -> tuple[Relation, Names]:
        below, names = self.name(aggregate.input)
        keys = tuple(Named(self._next(), self._renamed(key.scalar, names)) for key in aggregate.keys)
        calls = tuple(
            replace(
                call,
                name=self._next(),
                argument=None if call.argument is None else self._renamed(call.argument, names),
                filter=None if call.filter is None else self._renamed(call.filter, names),
            )
            for call in aggregate.aggregates
        )
        named = Aggregate(below, keys, calls)
        return named, _between(aggregate, named)

    def _renamed(self, scalar: Scalar, names: Mapping[str, str]) -> Scalar:
        match scalar:
            case Column(name=name):
                return replace(scalar, name=names.get(name) or self._outer.get(name, name))
            case Subquery(relation=relation):
                return Subquery(_Namer(self._numbers, {**self._outer, **names}).name(relation)[0])
        below = children(scalar)
        return with_children(scalar, [self._renamed(child, names) for child in below]) if below else scalar

    def _next(self) -> str:
        return f"#{next(self._numbers)}"


def _between(node: Relation, named: Relation) -> Names:
    return {f.name: to.name for f, to in zip(node.fields, named.fields, strict=True)}
