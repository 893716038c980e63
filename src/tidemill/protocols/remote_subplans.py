"""Remote subplans: the largest selections and joins of a view that read only tables of sources.

A protocol maintains the rows of a remote subplan. The rest of the view, which may group them or join them with tables
of the warehouse, reads it like any other relation, so every kind of view works over sources.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, Project, Scan
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    expressions,
    outer_columns,
    subqueries,
    with_children,
    with_subqueries,
)
from tidemill.compiler.analysis.blocks import blocks
from tidemill.compiler.analysis.rename import fresh, rename
from tidemill.compiler.rewrites.unique_aliases import unique_aliases
from tidemill.model.types import Field
from tidemill.sources.remote_queries.signed_query import SpjView

SUBPLAN_SIGN = "@"
"""Separator in the names of remote subplans; names given by users cannot contain it."""


@dataclass(frozen=True)
class RemoteSubplan:
    """A subplan that reads only sources: the name of the relation that holds its rows, their columns, and its query."""

    name: str
    fields: tuple[Field, ...]
    product: SpjView


def extract_remote_subplans(
    view: str, relation: Relation, remote: Set[str], *, single: bool = False
) -> tuple[Relation, tuple[RemoteSubplan, ...]]:
    """Replace the remote subplans of ``relation`` by scans of their names; ``remote`` are the tables of sources.

    With ``single`` each subplan is a single table.

    >>> from tidemill.model.types import INT
    >>> orders = Scan("shop.orders", "o", (Field("id", INT), Field("n", INT)))
    >>> local = Scan("local", "l", (Field("id", INT),))
    >>> rest, (subplan,) = extract_remote_subplans("v", Join(orders, local), {"shop.orders"})
    >>> subplan.name, [f.name for f in subplan.fields], rest.left.input.relation
    ('v@1', ['id', 'n'], 'v@1')
    """
    extractor = _SubplanExtractor(view, remote, single)
    return extractor.cut(relation), tuple(extractor.subplans)


class _SubplanExtractor:
    """Finds the largest remote subplans of a tree, top down."""

    def __init__(self, view: str, remote: Set[str], single: bool) -> None:
        self._view = view
        self._remote = remote
        self._single = single
        self.subplans: list[RemoteSubplan] = []

    def cut(self, node: Relation, needed: Set[str] | None = None) -> Relation:
        """``node`` with remote subplans extracted, which fetch only the columns ``needed`` above; None means all."""
        # A correlated subquery cannot be evaluated without the outer rows.
        if self._is_remote(node) and not outer_columns(node):
            return self._taken(node, needed)
        read = _read_below(node, needed)
        below = with_children(node, [self.cut(child, read) for child in children(node)])
        return with_subqueries(below, lambda nested: replace(nested, relation=self.cut(nested.relation)))

    def _is_remote(self, node: Relation) -> bool:
        if isinstance(node, Scan):
            return node.relation in self._remote
        if self._single:
            return False
        plain = isinstance(node, Filter | Project | Join) and not any(map(subqueries, expressions(node)))
        return plain and all(map(self._is_remote, children(node)))

    def _taken(self, node: Relation, needed: Set[str] | None) -> Relation:
        (block,) = blocks(unique_aliases(node))
        # At least one column is kept, so that rows can be counted.
        kept = [f for f in node.fields if needed is None or f.name in needed] or list(node.fields[:1])
        names: list[str] = []
        for field in kept:
            names.append(fresh(field.name.rpartition(".")[2], names))
        fields = tuple(Field(n, f.type, f.nullable) for n, f in zip(names, kept, strict=True))
        leaves = tuple(leaf for leaf in block.leaves if isinstance(leaf, Scan))
        outputs = {output.name: output for output in block.outputs}
        conditions = tuple(condition.scalar for condition in block.conditions)
        product = SpjView(leaves, conditions, tuple(outputs[f.name] for f in kept))
        subplan = RemoteSubplan(f"{self._view}{SUBPLAN_SIGN}{len(self.subplans) + 1}", fields, product)
        self.subplans.append(subplan)
        return rename(Scan(subplan.name, subplan.name, fields), [f.name for f in kept])


def _read_below(node: Relation, needed: Set[str] | None) -> Set[str] | None:
    """The columns that ``node`` reads of its children, if its expressions determine them."""
    own = {name for scalar in expressions(node) for name in columns_in(scalar)}
    match node:
        case Aggregate() | Project():
            return None if any(map(subqueries, expressions(node))) else own
        case Filter() | Join() if needed is not None and not any(map(subqueries, expressions(node))):
            return needed | own
    return None
