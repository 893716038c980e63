"""What of a view lies in sources: its *cores*, the selections and joins over tables of sources and nothing else.

A protocol keeps the rows of a core. To the rest of the view, which may group them or join them with tables of the
warehouse, a core is a relation like any other: so everything that views can be goes for views over sources as well.
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
"""Stands in the names of cores, and of nothing that users name."""


@dataclass(frozen=True)
class RemoteSubplan:
    """A part of a view that lies in sources: the relation that holds its rows, their columns, and what they are."""

    name: str
    fields: tuple[Field, ...]
    product: SpjView


def extract_remote_subplans(
    view: str, relation: Relation, remote: Set[str], *, single: bool = False
) -> tuple[Relation, tuple[RemoteSubplan, ...]]:
    """``relation`` with its cores taken out, which it reads by name; ``remote`` are the tables of sources.

    With ``single`` a core is never more than one table.

    >>> from tidemill.model.types import INT
    >>> orders = Scan("shop.orders", "o", (Field("id", INT), Field("n", INT)))
    >>> local = Scan("local", "l", (Field("id", INT),))
    >>> rest, (subplan,) = extract_remote_subplans("v", Join(orders, local), {"shop.orders"})
    >>> subplan.name, [f.name for f in subplan.fields], rest.left.input.relation
    ('v@1', ['id', 'n'], 'v@1')
    """
    cutter = _SubplanExtractor(view, remote, single)
    return cutter.cut(relation), tuple(cutter.cores)


class _SubplanExtractor:
    """Finds the largest parts of a tree that are cores, from the top down."""

    def __init__(self, view: str, remote: Set[str], single: bool) -> None:
        self._view = view
        self._remote = remote
        self._single = single
        self.cores: list[RemoteSubplan] = []

    def cut(self, node: Relation, needed: Set[str] | None = None) -> Relation:
        """``node`` with its cores taken out, of which only the columns ``needed`` above it travel; None means all."""
        # A subquery that asks about the rows around it cannot be asked without them.
        if self._is_core(node) and not outer_columns(node):
            return self._taken(node, needed)
        read = _read_below(node, needed)
        below = with_children(node, [self.cut(child, read) for child in children(node)])
        return with_subqueries(below, lambda nested: replace(nested, relation=self.cut(nested.relation)))

    def _is_core(self, node: Relation) -> bool:
        if isinstance(node, Scan):
            return node.relation in self._remote
        if self._single:
            return False
        plain = isinstance(node, Filter | Project | Join) and not any(map(subqueries, expressions(node)))
        return plain and all(map(self._is_core, children(node)))

    def _taken(self, node: Relation, needed: Set[str] | None) -> Relation:
        (block,) = blocks(unique_aliases(node))
        # A row must keep one column at least, if only to be counted.
        kept = [f for f in node.fields if needed is None or f.name in needed] or list(node.fields[:1])
        names: list[str] = []
        for field in kept:
            names.append(fresh(field.name.rpartition(".")[2], names))
        fields = tuple(Field(n, f.type, f.nullable) for n, f in zip(names, kept, strict=True))
        leaves = tuple(leaf for leaf in block.leaves if isinstance(leaf, Scan))
        outputs = {output.name: output for output in block.outputs}
        conditions = tuple(condition.scalar for condition in block.conditions)
        product = SpjView(leaves, conditions, tuple(outputs[f.name] for f in kept))
        core = RemoteSubplan(f"{self._view}{SUBPLAN_SIGN}{len(self.cores) + 1}", fields, product)
        self.cores.append(core)
        return rename(Scan(core.name, core.name, fields), [f.name for f in kept])


def _read_below(node: Relation, needed: Set[str] | None) -> Set[str] | None:
    """The columns that ``node`` reads of what is below it, where that can be told from its expressions."""
    own = {name for scalar in expressions(node) for name in columns_in(scalar)}
    match node:
        case Aggregate() | Project():
            return None if any(map(subqueries, expressions(node))) else own
        case Filter() | Join() if needed is not None and not any(map(subqueries, expressions(node))):
            return needed | own
    return None
