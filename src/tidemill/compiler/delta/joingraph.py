"""From a block to its join graph: a tree of equalities between its leaves, and the conditions tested on paths."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.algebra.expressions.scalars import Named
from tidemill.compiler.analysis.blocks import AliasPair, BlockCondition, QueryBlock, meetings
from tidemill.compiler.delta.stream_history import StreamHistory
from tidemill.program.joingraph import Graph, GraphMember, Lookahead, Vertex


def graph_of(target: str, block: QueryBlock, histories: Mapping[str, StreamHistory], lookahead: Lookahead) -> Graph:
    """The join graph of ``block``, whose leaves are held by ``histories``.

    The tree takes the first equalities that connect something new; others between the same leaves belong to its vertex,
    those that would close a cycle are tried on paths. Leaves that no equality connects are joined without columns: a
    cross product.
    """
    members = tuple(_member(histories[leaf.alias]) for leaf in block.leaves)
    aliases = [member.alias for member in members]
    found: dict[AliasPair, list[tuple[AliasPair, BlockCondition]]] = {}
    for condition in block.conditions:
        for pair, columns in meetings(condition, block, aliases):
            found.setdefault(pair, []).append((columns, condition))
    tree = _tree(aliases, list(found))
    vertices = tuple(Vertex(pair, tuple(columns for columns, _ in found.get(pair, ()))) for pair in tree)
    answered = [condition for pair in tree for _, condition in found.get(pair, ())]
    held = [condition for member in members for condition in member.filters]
    filters = tuple(
        condition.scalar
        for condition in block.conditions
        if not any(condition is one for one in answered) and condition.scalar not in held
    )
    return Graph(target, members, vertices, filters, lookahead)


def _member(history: StreamHistory) -> GraphMember:
    sums = tuple(Named(sum_.value.name, sum_.scalar) for sum_ in history.sums)
    return GraphMember(history.scan.alias, history.scan.relation, history.map.name, history.filters, sums)


def _tree(aliases: list[str], edges: list[AliasPair]) -> list[AliasPair]:
    """A spanning tree of the aliases: given edges where they connect something new, added edges elsewhere."""
    part = {alias: alias for alias in aliases}
    tree: list[AliasPair] = []
    cross = [(aliases[0], alias) for alias in aliases[1:]]
    for one, other in [*edges, *cross]:
        if part[one] != part[other]:
            merged, into = part[other], part[one]
            part = {alias: into if root == merged else root for alias, root in part.items()}
            tree.append((one, other))
    return tree
