"""Top-k over a join, from the first rows of its single relations.

``SELECT ... FROM users u JOIN tweets t ON t.user = u.id ORDER BY t.likes DESC LIMIT 10`` can show no tweet that has ten
better ones of the same user: whoever is joined with it is joined with these as well. So the first ten tweets of each
user are enough::

    SELECT ... FROM users u JOIN (
        SELECT * FROM tweets ORDER BY likes DESC, ... LIMIT 10, for each user
    ) t ON t.user = u.id ORDER BY t.likes DESC LIMIT 10

Rows of a relation that agree in the columns by which others meet it have the same partners. Among the rows of the join
with one of these, the order is that of the relation's own columns. So all relations that are ordered by can be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Join, Project, TopK
from tidemill.algebra.relational.walk import columns_in, substitute, transform
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.rewrites.plain_joins import key_of, plain_join, reads_streams
from tidemill.model.schema import Table
from tidemill.model.types import Floating


def push_down_top_k(relation: Relation, tables: Mapping[str, Table]) -> Relation:
    """``relation`` with the relations of a join under a top-k cut to their first rows."""
    if reads_streams(relation, tables):
        return relation
    return transform(relation, lambda node: _changed(node, tables) if isinstance(node, TopK) else node)


def _changed(node: TopK, tables: Mapping[str, Table]) -> Relation:
    block = plain_join(node.input)
    if block is None or node.limit is None or (node.ties and node.offset):
        return node
    join = _RankedJoin.of(node, block)
    if join is None:
        return node
    cut = [join.cut(leaf, tables) for leaf in block.leaves]
    if all(one is None for one in cut):
        return node
    leaves = [join.whole(leaf) if one is None else one for leaf, one in zip(block.leaves, cut, strict=True)]
    rows = filtered(reduce(Join, leaves), *join.conditions)
    return replace(node, input=Project(rows, block.outputs))


@dataclass(frozen=True, slots=True)
class _RankedJoin:
    """A join under a top-k: its outputs are plain columns, and no order is over several relations."""

    node: TopK
    block: QueryBlock
    partition: tuple[Scalar, ...]
    order: tuple[SortOrder, ...]

    @classmethod
    def of(cls, node: TopK, block: QueryBlock) -> _RankedJoin | None:
        values = {output.name: output.scalar for output in block.outputs}
        partition = tuple(substitute(scalar, values) for scalar in node.partition)
        order = tuple(replace(term, scalar=substitute(term.scalar, values)) for term in node.order)
        terms = [term.scalar for term in order]
        owners = block.aliases
        single = all(len({owners.get(name) for name in columns_in(scalar)}) == 1 for scalar in terms)
        plain = all(isinstance(output.scalar, Column) for output in block.outputs)
        computed = (*partition, *terms, *(condition.scalar for condition in block.conditions))
        return cls(node, block, partition, order) if single and plain and not any(map(may_fail, computed)) else None

    @property
    def conditions(self) -> list[Scalar]:
        """The conditions that no leaf decides alone."""
        return [condition.scalar for condition in self.block.conditions if len(condition.needs) != 1]

    def whole(self, leaf: Leaf) -> Relation:
        """A leaf under the conditions that it alone decides."""
        own = [condition.scalar for condition in self.block.conditions if condition.needs == {leaf.alias}]
        return filtered(leaf, *own)

    def cut(self, leaf: Leaf, tables: Mapping[str, Table]) -> Relation | None:
        """The first rows of a leaf for all partners that it can have; None if it orders nothing, or gains nothing."""
        fields = {f.name: column(f) for f in leaf.fields}
        order = tuple(term for term in self.order if columns_in(term.scalar) <= fields.keys())
        met = [fields[name] for name in fields if name in _read((*self.conditions, *self.partition))]
        names = {c.name for c in met}
        key = key_of(leaf, tables)
        free = any(not columns_in(term.scalar) <= names for term in order)
        # Partitions take the two zeros of DOUBLE for one.
        if not free or (key is not None and key <= names) or any(isinstance(c.type, Floating) for c in met):
            return None
        # Ties are ordered by the columns of the view, from left to right.
        shown = [name for o in self.block.outputs for name in columns_in(o.scalar) if name in fields]
        columns = dict.fromkeys((*shown, *names, *_read(term.scalar for term in order)))
        rows = Project(self.whole(leaf), tuple(Named(name, fields[name]) for name in columns))
        assert self.node.limit is not None
        return TopK(rows, tuple(met), order, self.node.limit + self.node.offset, ties=self.node.ties)


def _read(scalars: Iterable[Scalar]) -> list[str]:
    """The columns that expressions read, in an order that is always the same."""
    return sorted({name for scalar in scalars for name in columns_in(scalar)})
