"""What of a view lies in sources: its *cores*, the selections and joins over tables of sources and nothing else.

A protocol keeps the rows of a core. To the rest of the view, which may group them or join them with tables of the
warehouse, a core is a relation like any other: so everything that views can be goes for views over sources as well.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from tidemill.algebra.relations import Filter, Join, Project, Relation, Scan
from tidemill.algebra.walk import children, expressions, outer_columns, subqueries, with_children, with_subqueries
from tidemill.compiler.blocks import blocks
from tidemill.compiler.rewrites.apart import apart
from tidemill.compiler.rewrites.rename import fresh, rename
from tidemill.model.types import Field
from tidemill.sources.queries import Product

CORE = "@"
"""Stands in the names of cores, and of nothing that users name."""


@dataclass(frozen=True)
class Core:
    """A part of a view that lies in sources: the relation that holds its rows, their columns, and what they are."""

    name: str
    fields: tuple[Field, ...]
    product: Product


def split(
    view: str, relation: Relation, remote: Set[str], *, single: bool = False
) -> tuple[Relation, tuple[Core, ...]]:
    """``relation`` with its cores taken out, which it reads by name; ``remote`` are the tables of sources.

    With ``single`` a core is never more than one table.

    >>> from tidemill.model.types import INT
    >>> orders = Scan("shop.orders", "o", (Field("id", INT), Field("n", INT)))
    >>> rest, (core,) = split("v", Join(orders, Scan("local", "l", (Field("id", INT),))), {"shop.orders"})
    >>> core.name, [f.name for f in core.fields], rest.left.input.relation
    ('v@1', ['id', 'n'], 'v@1')
    """
    cutter = _Cutter(view, remote, single)
    return cutter.cut(relation), tuple(cutter.cores)


class _Cutter:
    """Finds the largest parts of a tree that are cores, from the top down."""

    def __init__(self, view: str, remote: Set[str], single: bool) -> None:
        self._view = view
        self._remote = remote
        self._single = single
        self.cores: list[Core] = []

    def cut(self, node: Relation) -> Relation:
        # A subquery that asks about the rows around it cannot be asked without them.
        if self._is_core(node) and not outer_columns(node):
            return self._taken(node)
        below = with_children(node, [self.cut(child) for child in children(node)])
        return with_subqueries(below, lambda nested: replace(nested, relation=self.cut(nested.relation)))

    def _is_core(self, node: Relation) -> bool:
        if isinstance(node, Scan):
            return node.relation in self._remote
        if self._single:
            return False
        plain = isinstance(node, Filter | Project | Join) and not any(map(subqueries, expressions(node)))
        return plain and all(map(self._is_core, children(node)))

    def _taken(self, node: Relation) -> Relation:
        (block,) = blocks(apart(node))
        names: list[str] = []
        for field in node.fields:
            names.append(fresh(field.name.rpartition(".")[2], names))
        fields = tuple(Field(n, f.type, f.nullable) for n, f in zip(names, node.fields, strict=True))
        leaves = tuple(leaf for leaf in block.leaves if isinstance(leaf, Scan))
        product = Product(leaves, tuple(c.scalar for c in block.conditions), block.outputs)
        core = Core(f"{self._view}{CORE}{len(self.cores) + 1}", fields, product)
        self.cores.append(core)
        return rename(Scan(core.name, core.name, fields), [f.name for f in node.fields])
