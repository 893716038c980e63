"""Definitions (WITH): a relation that is read more than once is defined once, so programs stay linear in the view."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidemill.algebra.node import Relation, memoized
from tidemill.algebra.relational.relations import Recursive, Scan, Values, With
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import (
    children,
    expressions,
    outer_columns,
    scans,
    subqueries,
    transform,
    walk_all,
)
from tidemill.compiler.analysis.rename import fresh, rename, short

FEW_LEAVES = 4
"""Number of scans up to which a relation that is read twice is copied; larger ones become definitions.

Filters can be pushed into a copy, and it is looked up in the tables; a definition becomes a stage.
"""


def hoist(relation: Relation) -> Relation:
    """``relation`` with all of its definitions at the top, in the order of their dependencies."""
    found: list[tuple[str, Relation]] = []

    def without(node: Relation) -> Relation:
        if not isinstance(node, With):
            return node
        found.extend(node.definitions)
        return node.body

    return around(found, transform(relation, without))


def around(definitions: Iterable[tuple[str, Relation]], body: Relation) -> Relation:
    """``body`` in the scope of ``definitions``."""
    given = tuple(definitions)
    return With(given, body) if given else body


@memoized
def count_leaves(relation: Relation) -> int:
    """Number of relations ``relation`` reads, those in the subqueries of its expressions included.

    >>> from tidemill.algebra.relational.relations import UnionAll
    >>> count_leaves(UnionAll((Scan("r", "r", ()), Scan("r", "r", ()))))
    2
    """
    if isinstance(relation, Scan | Values):
        return 1
    nested = (found.relation for scalar in expressions(relation) for found in subqueries(scalar))
    return sum(map(count_leaves, (*children(relation), *nested)))


class Definitions:
    """The definitions that a rewrite of ``relation`` adds to those that it has."""

    def __init__(self, relation: Relation) -> None:
        nodes = list(walk_all(relation))
        self._taken = {name for node in nodes if isinstance(node, With) for name, _ in node.definitions}
        # The rows last found by a recursion, and partitions, are visible only inside of them.
        self._inner = {node.name for node in nodes if isinstance(node, Recursive)}
        self._inner.update(slice_.name for node in nodes if isinstance(node, TimePartitioned) for slice_ in node.slices)
        self._added: list[tuple[str, Relation]] = []

    def rewritten(self, relation: Relation, rewrite: Callable[[Relation], Relation]) -> Relation:
        """``relation`` with its body and each definition rewritten; added definitions come before their readers."""
        definitions: list[tuple[str, Relation]] = []
        for name, below in relation.definitions if isinstance(relation, With) else ():
            changed = rewrite(below)
            definitions += [*self._drained(), (name, changed)]
        body = rewrite(relation.body if isinstance(relation, With) else relation)
        return around((*definitions, *self._drained()), body)

    def _drained(self) -> list[tuple[str, Relation]]:
        added, self._added = self._added, []
        return added

    def once(self, relation: Relation) -> Relation:
        """``relation`` in a form that may be read many times: itself if it is small, else a definition.

        A correlated subquery depends on the outer row and is not shared.
        """
        if (
            count_leaves(relation) <= FEW_LEAVES
            or outer_columns(relation)
            or not self._inner.isdisjoint(scans(relation))
        ):
            return relation
        alias = fresh("shared", {name.removeprefix("with ") for name in self._taken})
        self._taken.add(f"with {alias}")
        named = rename(relation, short(relation.fields))
        self._added.append((f"with {alias}", named))
        return rename(Scan(f"with {alias}", alias, named.fields), [f.name for f in relation.fields])
