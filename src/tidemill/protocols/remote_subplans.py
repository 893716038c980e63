"""Remote subplans: the parts of a view that are asked of sources.

A protocol maintains the rows of a remote subplan. The rest of the view, which may group them or join them with tables
of the warehouse, reads it like any other relation, so every kind of view works over sources. What is asked:

- selections and joins that read only tables of sources, as large as possible;
- groups over these as partial sums (``group_subplans``);
- semi joins as joins whose rows count once (``semi_joins``), where the key of what is kept is shown;
- outer joins as their pairs and the rows of the preserved side, likewise.

A subplan that is only read because what the view does with it cannot be asked is a *copy*: ``copied`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Exists, Literal, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import (
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    OuterJoin,
    Project,
    Scan,
    UnionAll,
)
from tidemill.algebra.relational.walk import (
    children,
    columns_in,
    expressions,
    outer_columns,
    scans,
    subqueries,
    with_children,
    with_subqueries,
)
from tidemill.compiler.analysis.blocks import blocks
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.rename import fresh, rename
from tidemill.compiler.rewrites.unique_aliases import unique_aliases
from tidemill.model.types import Field
from tidemill.protocols.group_subplans import partial_groups
from tidemill.protocols.semi_joins import semi_join
from tidemill.sources.remote_queries.signed_query import SpjView

SUBPLAN_SIGN = "@"
"""Separator in the names of remote subplans; names given by users cannot contain it."""


@dataclass(frozen=True)
class RemoteSubplan:
    """A subplan that reads only sources: the name of the relation that holds its rows, their columns, and its query.

    ``copied`` is the reason why its rows are held here though the view does not show them; empty if it is asked for.
    """

    name: str
    fields: tuple[Field, ...]
    product: SpjView
    copied: str = ""


def extract_remote_subplans(
    view: str,
    relation: Relation,
    remote: Set[str],
    *,
    single: bool = False,
    keys: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Relation, tuple[RemoteSubplan, ...]]:
    """Replace the remote subplans of ``relation`` by scans of their names; ``remote`` are the tables of sources.

    With ``single`` each subplan is a single table. ``keys`` are the primary keys of the tables; without them groups,
    semi joins and outer joins are evaluated here.

    >>> from tidemill.model.types import INT
    >>> orders = Scan("shop.orders", "o", (Field("id", INT), Field("n", INT)))
    >>> local = Scan("local", "l", (Field("id", INT),))
    >>> rest, (subplan,) = extract_remote_subplans("v", Join(orders, local), {"shop.orders"})
    >>> subplan.name, [f.name for f in subplan.fields], rest.left.input.relation
    ('v@1', ['id', 'n'], 'v@1')
    """
    extractor = _SubplanExtractor(view, remote, single, keys)
    return extractor.cut(relation), tuple(extractor.subplans)


class _SubplanExtractor:
    """Finds the largest remote subplans of a tree, top down."""

    def __init__(self, view: str, remote: Set[str], single: bool, keys: Mapping[str, tuple[str, ...]] | None) -> None:
        self._view = view
        self._remote = remote
        self._single = single
        self._keys = keys or {}
        self._asks = keys is not None and not single
        self._partners = 0
        self.subplans: list[RemoteSubplan] = []

    def cut(self, node: Relation, needed: Set[str] | None = None, copied: str = "") -> Relation:
        """``node`` with remote subplans extracted, which fetch only the columns ``needed`` above; None means all.

        ``copied`` is the reason why rows are needed here that the view does not show.
        """
        # A correlated subquery cannot be evaluated without the outer rows.
        if self._is_remote(node) and not outer_columns(node):
            return self._taken(node, needed, copied)
        asked = self._asked(node, needed) if self._asks and not outer_columns(node) else None
        if asked is not None:
            return asked
        read, reason = _read_below(node, needed), _why_copied(node, copied)
        below = with_children(node, [self.cut(child, read, reason) for child in children(node)])
        nested = "a subquery that reads it is evaluated here"
        return with_subqueries(below, lambda found: replace(found, relation=self.cut(found.relation, None, nested)))

    def _is_remote(self, node: Relation) -> bool:
        if isinstance(node, Scan):
            return node.relation in self._remote
        if self._single:
            return False
        plain = isinstance(node, Filter | Project | Join) and not any(map(subqueries, expressions(node)))
        return plain and all(map(self._is_remote, children(node)))

    # ------------------------------------------------------------------------- what else a source can be asked for

    def _asked(self, node: Relation, needed: Set[str] | None) -> Relation | None:
        match node:
            case Aggregate(input=input_) if self._is_remote(input_) and _is_of_one_source(input_):
                return self._groups(node)
            case Filter(input=input_) if self._is_remote(input_):
                return self._semi_join(node, needed)
            case OuterJoin(left=left, right=right) if self._is_remote(left) and self._is_remote(right):
                return self._outer_join(node, needed)
        return None

    def _groups(self, node: Aggregate) -> Relation | None:
        groups = partial_groups(node)
        if groups is None:
            return None
        product = _product(Project(node.input, (*groups.outputs, *groups.sums)))
        width = len(groups.outputs)
        product = replace(product, outputs=product.outputs[:width], sums=product.outputs[width:])
        subplan = self._added(groups.fields, product)
        return groups.total(Scan(subplan.name, subplan.name, subplan.fields))

    def _semi_join(self, node: Filter, needed: Set[str] | None) -> Relation | None:
        semi = semi_join(node)
        key = None if semi is None else self._shown_key(semi.kept)
        if semi is None or key is None or not self._is_remote(semi.joined) or outer_columns(semi.joined):
            return None
        if semi.negated:
            why = "rows of it that have a partner now are shown once they have none"
            return self._alone(semi.kept, self._subplan(semi.joined, key), key, needed, why)
        shown = [f.name for f in semi.kept.fields if needed is None or f.name in needed or f.name in key]
        subplan = self._subplan(Project(semi.joined, tuple(_columns(semi.joined, shown))), shown)
        return Distinct(_renamed(subplan, shown))

    def _outer_join(self, node: OuterJoin, needed: Set[str] | None) -> Relation | None:
        condition = () if node.condition is None else (node.condition,)
        sides = [(node.left, node.keeps_left), (node.right, node.keeps_right)]
        keys = [self._shown_key(side) for side, kept in sides if kept]
        if any(map(may_fail, condition)) or any(map(subqueries, condition)) or None in keys:
            return None
        shown = [f.name for f in node.fields if needed is None or f.name in needed] or [node.fields[0].name]
        key = [name for one in keys if one is not None for name in one]
        pairs = Join(node.left, node.right, node.condition)
        wanted = [f.name for f in node.fields if f.name in {*shown, *key}]
        subplan = self._subplan(pairs, wanted)
        parts: list[Relation] = [Project(_renamed(subplan, wanted), tuple(_columns(pairs, shown)))]
        for side, kept in sides:
            if kept:
                own = self._shown_key(side) or ()
                alone = self._alone(side, subplan, own, {*shown, *own}, "", [wanted.index(name) for name in own])
                parts.append(_padded(alone, node, shown))
        return UnionAll(tuple(parts))

    def _alone(
        self,
        kept: Relation,
        pairs: RemoteSubplan,
        key: Sequence[str],
        needed: Set[str] | None,
        copied: str,
        places: Sequence[int] | None = None,
    ) -> Relation:
        """The rows of ``kept`` whose key is not among the ``pairs``, which have it in ``places``."""
        rows = self._taken(kept, None if needed is None else needed | set(key), copied)
        self._partners += 1
        partner = Scan(pairs.name, f"{pairs.name}_partner_{self._partners}", pairs.fields)
        inner = [partner.fields[place] for place in (range(len(key)) if places is None else places)]
        own = {field.name: field for field in rows.fields}
        equal = [call("eq", column(one), column(own[name])) for one, name in zip(inner, key, strict=True)]
        condition = conjunction(equal)
        assert condition is not None
        return Filter(rows, call("not", Exists(Filter(partner, condition))))

    def _shown_key(self, node: Relation) -> tuple[str, ...] | None:
        """Columns of ``node`` that are the keys of all its tables; None if it does not show them."""
        found = blocks(unique_aliases(node))
        if len(found) != 1:
            return None
        shown = {output.scalar.name: output.name for output in found[0].outputs if isinstance(output.scalar, Column)}
        key = [
            shown.get(f"{leaf.alias}.{part}")
            for leaf in found[0].leaves
            for part in self._keys.get(leaf.relation, ("",))
        ]
        names = tuple(name for name in key if name is not None)
        return names if len(names) == len(key) else None

    # ------------------------------------------------------------------------------------------------------ subplans

    def _taken(self, node: Relation, needed: Set[str] | None, copied: str = "") -> Relation:
        # At least one column is kept, so that rows can be counted.
        kept = [f.name for f in node.fields if needed is None or f.name in needed] or [node.fields[0].name]
        return _renamed(self._subplan(node, kept, copied), kept)

    def _subplan(self, node: Relation, kept: Sequence[str], copied: str = "") -> RemoteSubplan:
        product = _product(node)
        outputs = {output.name: output for output in product.outputs}
        own = {field.name: field for field in node.fields}
        names: list[str] = []
        for name in kept:
            names.append(fresh(name.rpartition(".")[2], names))
        fields = tuple(Field(n, own[name].type, own[name].nullable) for n, name in zip(names, kept, strict=True))
        return self._added(fields, replace(product, outputs=tuple(outputs[name] for name in kept)), copied)

    def _added(self, fields: tuple[Field, ...], product: SpjView, copied: str = "") -> RemoteSubplan:
        name = f"{self._view}{SUBPLAN_SIGN}{len(self.subplans) + 1}"
        self.subplans.append(RemoteSubplan(name, fields, product, copied))
        return self.subplans[-1]


def _product(node: Relation) -> SpjView:
    (block,) = blocks(unique_aliases(node))
    leaves = tuple(leaf for leaf in block.leaves if isinstance(leaf, Scan))
    return SpjView(leaves, tuple(condition.scalar for condition in block.conditions), block.outputs)


def _renamed(subplan: RemoteSubplan, names: Sequence[str]) -> Relation:
    return rename(Scan(subplan.name, subplan.name, subplan.fields), names)


def _columns(node: Relation, names: Sequence[str]) -> list[Named]:
    found = {field.name: field for field in node.fields}
    return [Named(name, column(found[name])) for name in names]


def _padded(rows: Relation, node: OuterJoin, names: Sequence[str]) -> Relation:
    """``rows`` with NULLs for the columns that they do not have."""
    own, types = {f.name: f for f in rows.fields}, {f.name: f.type for f in node.fields}
    scalars = [column(own[name]) if name in own else Literal(None, types[name]) for name in names]
    return Project(rows, tuple(Named(name, scalar) for name, scalar in zip(names, scalars, strict=True)))


def _is_of_one_source(node: Relation) -> bool:
    return len({name.partition(".")[0] for name in scans(node)}) == 1


def _why_copied(node: Relation, above: str) -> str:
    """The reason why rows below ``node`` are held here though they are not shown, given that of what is above it."""
    if any(map(subqueries, expressions(node))):
        return "a subquery about its rows is evaluated here"
    match node:
        case Aggregate() | Distinct():
            return ""  # what is held are groups, or values
        case OuterJoin():
            return "an outer join with it is evaluated here"
        case Join():
            return "a join with it is evaluated here"
        case Intersect() | Except():
            return "rows of it are compared here with others"
    return above


def _read_below(node: Relation, needed: Set[str] | None) -> Set[str] | None:
    """The columns that ``node`` reads of its children, if its expressions determine them."""
    own = {name for scalar in expressions(node) for name in columns_in(scalar)}
    match node:
        case Aggregate() | Project():
            return None if any(map(subqueries, expressions(node))) else own
        case Filter() | Join() if needed is not None and not any(map(subqueries, expressions(node))):
            return needed | own
    return None
