"""Canonical forms: relations that differ only in names have the same one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from weakref import WeakValueDictionary

from tidemill.algebra.expressions.scalars import Column, Exists, Named, Quantified, Scalar, Subquery
from tidemill.algebra.node import Relation, memoized
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
    Recursive,
    Repeat,
    Scan,
    TopK,
    UnionAll,
    Unnest,
    Values,
    Window,
)
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import children, expressions, transform, with_children, with_expressions
from tidemill.model.types import Field

ColumnNames = dict[str, str]
"""Names of the columns of a node: old name to canonical name."""


class CanonicalForm:
    """The shape of a relation without its names. Relations of the same shape share one object."""

    __slots__ = ("__weakref__", "_node")

    def __init__(self, node: Relation) -> None:
        self._node = node  # keeps the forms of the inputs alive, so that they are found again


_FORMS: WeakValueDictionary[Relation, CanonicalForm] = WeakValueDictionary()
"""The forms that are in use, each by its topmost node over the forms of its inputs."""


@dataclass(frozen=True, slots=True)
class _CanonicalInput(Relation):
    """An input whose form is known, in place of its tree."""

    form: CanonicalForm
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


@memoized
def canonical(relation: Relation) -> CanonicalForm:
    """``relation`` under names that depend on its shape alone.

    A common table expression that is used twice comes out of the front end as two trees with different aliases. They
    become one stage, since their forms are equal. Each node is visited once, since inputs are represented by their
    forms.

    >>> canonical(Scan("orders", "a", ())) == canonical(Scan("orders", "b", ()))
    True
    """
    node = relation
    if not isinstance(relation, Recursive):  # the name of a recursion is scanned below it
        node = with_children(
            relation, [_CanonicalInput(canonical(child), child.fields) for child in children(relation)]
        )
    named, _ = _Namer(count(), {}).name(node)
    return _FORMS.setdefault(named, CanonicalForm(named))


class _Namer:
    """Numbers the columns in the order in which a walk from the left meets them; ``outer`` are those around them."""

    def __init__(self, numbers: Iterator[int], outer: Mapping[str, str]) -> None:
        self._numbers = numbers
        self._outer = outer

    def name(self, node: Relation) -> tuple[Relation, ColumnNames]:
        match node:
            case Scan():
                return self._name_scan(node)
            case _CanonicalInput():
                known = replace(node, columns=tuple(replace(f, name=self._next()) for f in node.columns))
                return known, _between(node, known)
            case Filter():
                below, names = self.name(node.input)
                return Filter(below, self._renamed(node.condition, names)), names
            case Project():
                return self._name_project(node)
            case Join() | OuterJoin():
                return self._name_join(node)
            case Intersect() | Except():
                left, names = self.name(node.left)
                return replace(node, left=left, right=self.name(node.right)[0]), names
            case UnionAll():
                parts = [self.name(part) for part in node.inputs]
                return UnionAll(tuple(part for part, _ in parts)), parts[0][1]
            case Aggregate():
                return self._name_aggregate(node)
            case Distinct():
                below, names = self.name(node.input)
                return Distinct(below), names
            case Unnest() | Repeat() | TopK() | Window() | Match():
                return self._name_unary(node)
            case Recursive():
                return self._name_recursive(node)
            case TimePartitioned():
                # Its bodies have no outer columns, so their names and those of its columns are kept.
                named_feeds = with_children(node, [self.name(feed.rows)[0] for feed in node.feeds])
                return named_feeds, {f.name: f.name for f in node.fields}
            case Values():
                fields = tuple(replace(f, name=self._next()) for f in node.columns)
                named = Values(node.rows, fields)
                return named, _between(node, named)
        raise TypeError(f"{type(node).__name__} has no canonical form")

    def _name_scan(self, scan: Scan) -> tuple[Relation, ColumnNames]:
        named = Scan(scan.relation, self._next(), scan.columns)
        return named, _between(scan, named)

    def _name_recursive(self, node: Recursive) -> tuple[Relation, ColumnNames]:
        """The step of a recursion scans the rows last found under a name of the node's own, which is replaced."""
        again = self._next()
        base, names = self.name(node.base)
        step, _ = self.name(transform(node.step, lambda below: _scanning(below, node.name, again)))
        return replace(node, name=again, base=base, step=step), names

    def _name_project(self, project: Project) -> tuple[Relation, ColumnNames]:
        below, names = self.name(project.input)
        outputs = tuple(Named(self._next(), self._renamed(output.scalar, names)) for output in project.outputs)
        named = Project(below, outputs)
        return named, _between(project, named)

    def _name_join(self, join: Join | OuterJoin) -> tuple[Relation, ColumnNames]:
        left, left_names = self.name(join.left)
        right, right_names = self.name(join.right)
        names = left_names | right_names
        condition = None if join.condition is None else self._renamed(join.condition, names)
        return replace(join, left=left, right=right, condition=condition), names

    def _name_aggregate(self, aggregate: Aggregate) -> tuple[Relation, ColumnNames]:
        below, names = self.name(aggregate.input)
        keys = tuple(Named(self._next(), self._renamed(key.scalar, names)) for key in aggregate.keys)
        calls = tuple(
            replace(call.over(self._renamed(scalar, names) for scalar in call.scalars), name=self._next())
            for call in aggregate.aggregates
        )
        named = Aggregate(below, keys, calls)
        return named, _between(aggregate, named)

    def _name_unary(self, node: Unnest | Repeat | TopK | Window | Match) -> tuple[Relation, ColumnNames]:
        """A node that passes its columns on and adds some of its own."""
        below, names = self.name(node.input)
        renamed = with_expressions(node, (self._renamed(scalar, names) for scalar in expressions(node)))
        match renamed:
            case Unnest():
                renamed = replace(renamed, columns=tuple(replace(f, name=self._next()) for f in renamed.columns))
            case Window():
                renamed = replace(renamed, calls=tuple(replace(call, name=self._next()) for call in renamed.calls))
            case Match():
                measures = tuple(replace(one, name=self._next()) for one in renamed.measures)
                renamed = replace(renamed, measures=measures)
        named = with_children(renamed, (below,))
        return named, _between(node, named)

    def _renamed(self, scalar: Scalar, names: Mapping[str, str]) -> Scalar:
        match scalar:
            case Column(name=name):
                return replace(scalar, name=names.get(name) or self._outer.get(name, name))
            case Subquery() | Exists() | Quantified():
                return self._renamed_subquery(scalar, names)
        below = children(scalar)
        return with_children(scalar, [self._renamed(child, names) for child in below]) if below else scalar

    def _renamed_subquery(self, scalar: Subquery | Exists | Quantified, names: Mapping[str, str]) -> Scalar:
        relation, own = _Namer(self._numbers, {**self._outer, **names}).name(scalar.relation)
        if isinstance(scalar, Quantified):
            return replace(scalar, relation=relation, condition=self._renamed(scalar.condition, {**names, **own}))
        return replace(scalar, relation=relation)

    def _next(self) -> str:
        return f"#{next(self._numbers)}"


def _scanning(node: Relation, name: str, again: str) -> Relation:
    return replace(node, relation=again) if isinstance(node, Scan) and node.relation == name else node


def _between(node: Relation, named: Relation) -> ColumnNames:
    return {f.name: to.name for f, to in zip(node.fields, named.fields, strict=True)}
