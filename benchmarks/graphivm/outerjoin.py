"""Strategy ``outerjoin`` (section 8.3 of the thesis): joins as the full outer join table of their relations.

The table holds what a join graph holds, every row with what it meets as far as that goes, but as a relation: a row that
meets a hundred others stands in it a hundred times. The rows of the view are those with all relations in them.

The table is a map like that of any grouping, and kept by first-order deltas: what a changed row meets is looked up in
the relations themselves, where nothing stands twice. To find it in the table would mean to take out all duplicates
first, so this is its better side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, OuterJoin, Project, Repeat, Scan
from tidemill.algebra.relational.walk import children, walk, with_children
from tidemill.compiler.analysis.blocks import Leaf, QueryBlock, blocks, meetings, used_columns
from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.subqueries.decorrelate import decorrelate
from tidemill.compiler.rewrites.subqueries.replace_quantifiers import replace_quantifiers
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies import STRATEGIES
from tidemill.compiler.strategies.strategy import NotAccepted, Reason, StageContext, Strategy
from tidemill.model.types import BIGINT, BOOLEAN
from tidemill.program.stages import Stage

MOST_MEMBERS = 4
"""Each full outer join is the sum of three parts, so a table of more relations would be too many sums."""

HERE = "._here"
"""The column of a relation's part of a row that is not NULL where there is one."""


TABLE = Reason("TABLE", "every row is held with all that it meets, as often as it meets something: for comparison only")


@contextmanager
def declared() -> Iterator[None]:
    """Views can ask for ``outerjoin`` meanwhile."""
    STRATEGIES[STRATEGY.name] = STRATEGY
    try:
        yield
    finally:
        del STRATEGIES[STRATEGY.name]


def compile_table(draft: StageDraft, context: StageContext) -> Stage:
    """The stage of a full outer join table."""
    if not any(f.name.endswith(HERE) for map_ in draft.maps for f in map_.keys):
        raise NotAccepted("it is no such table")
    return first_order_stage(draft, context.keys, context.streams, STRATEGY.name)


def tables_for_joins(relation: Relation) -> Relation:
    """``relation`` over the full outer join tables of its joins."""
    tabled = expand_outer_joins(full_outer_join_table(relation))
    return push_down_filters(decorrelate(replace_quantifiers(tabled)))


STRATEGY = Strategy("outerjoin", compile_table, rewrite=lambda r, *_: tables_for_joins(r), reason=lambda _: TABLE)


def full_outer_join_table(relation: Relation) -> Relation:
    """``relation`` with a table of that kind for each join that equalities connect; the same rows."""
    if isinstance(relation, Filter | Project | Join) and _is_plain(relation):
        found = blocks(relation)
        return (_tabled(found[0]) if len(found) == 1 else None) or relation
    return with_children(relation, [full_outer_join_table(child) for child in children(relation)])


def _is_plain(relation: Relation) -> bool:
    """True if the tree is one block of scans, under aliases of their own."""
    nodes = list(walk(relation))
    aliases = [node.alias for node in nodes if isinstance(node, Scan)]
    distinct = len(set(aliases)) == len(aliases)
    return distinct and all(isinstance(node, Scan | Filter | Project | Join) for node in nodes)


def _tabled(block: QueryBlock) -> Relation | None:
    """The block over its table; None where its leaves are few, many, or not connected by equalities."""
    order = list(_order(block))
    if not 2 <= len(block.leaves) <= MOST_MEMBERS or len(order) < len(block.leaves) - 1:
        return None
    joined = _member(block, block.leaves[0])
    for leaf, equalities in order:
        joined = OuterJoin(joined, _member(block, leaf), conjunction(equalities), keeps_left=True, keeps_right=True)
    rows = AggregateCall("rows", "count", None, BIGINT)
    table = Aggregate(joined, tuple(Named(f.name, column(f)) for f in joined.fields), (rows,))
    here = [Call("is_not_null", (column(f),), BOOLEAN) for f in joined.fields if f.name in map(_here, block.leaves)]
    answered = [condition for _, equalities in order for condition in equalities]
    others = [c.scalar for c in block.conditions if len(c.needs) != 1 and c.scalar not in answered]
    # As a condition this would be pushed down into the table, and take from it what has no partner.
    whole = conjunction([*here, *others])
    assert whole is not None, "there are leaves that must be there"
    return Project(
        Repeat(table, Case(((whole, column(aggregate_field(rows))),), Literal(0, BIGINT), BIGINT)), block.outputs
    )


def _order(block: QueryBlock) -> Iterator[tuple[Leaf, list[Scalar]]]:
    """The leaves after the first, each with equalities that connect it with those before it, as far as that goes."""
    aliases = [leaf.alias for leaf in block.leaves]
    edges = [
        (pair, condition.scalar) for condition in block.conditions for pair, _ in meetings(condition, block, aliases)
    ]
    reached, left = set(aliases[:1]), list(block.leaves[1:])
    while near := [leaf for leaf in left if any(leaf.alias in p and reached & set(p) for p, _ in edges)]:
        # One partner before it is enough: what a second one wants to equal would close a cycle, and is tried at last.
        leaf = near[0]
        pair = next(p for p, _ in edges if leaf.alias in p and reached & set(p))
        yield leaf, [scalar for p, scalar in edges if p == pair]
        reached.add(leaf.alias)
        left.remove(leaf)


def _member(block: QueryBlock, leaf: Leaf) -> Relation:
    """The rows of a leaf that pass its own conditions: the columns in use, and one that says that it is there."""
    assert isinstance(leaf, Scan)
    own = conjunction([c.scalar for c in block.conditions if c.needs == {leaf.alias}])
    rows = leaf if own is None else Filter(leaf, own)
    used = set(used_columns(block))
    columns = tuple(Named(f.name, column(f)) for f in leaf.fields if f.name in used)
    return Project(rows, (*columns, Named(_here(leaf), Literal(True, BOOLEAN))))


def _here(leaf: Leaf) -> str:
    return leaf.alias + HERE
