"""From a block to nested loops: the order of its leaves, their lookups, and where each condition is tested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Call, Cast, Column, Scalar
from tidemill.algebra.relational.relations import Change
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.blocks import BlockCondition, Leaf, QueryBlock, RelationKeys, indexable
from tidemill.compiler.analysis.failures import is_exact, may_fail
from tidemill.program.linearity import scalars_of
from tidemill.program.statements import ArrayLoop, Query, RelationLoop, Step, Version

MOST_LEAVES = 9
"""Number of leaves still to order above which the search is greedy."""


@dataclass(frozen=True, slots=True)
class LeafLoop:
    """One leaf in the loop order. A lookup is a column, an expression over earlier leaves, and its condition."""

    leaf: Leaf
    lookup: tuple[tuple[str, Scalar, BlockCondition], ...]
    rank: int


BY_KEY, BY_LOOKUP, BY_CHANGE, BY_SCAN = range(4)
"""Ways in which a loop finds its rows, best first: at most one row, some, all of a change, all of the relation."""


def nested_loops(block: QueryBlock, keys: RelationKeys) -> Query:
    """The block as nested loops: the change outermost, then lookups, full scans last.

    Of all orders the one with the fewest scans wins, then the one with the fewest lookups that may find many rows. So
    the load of a join starts from the relation whose foreign keys lead to the others, and a change takes the shortest
    path to such a relation. Arrays come last: their elements multiply rows, and no lookup uses them.
    """
    search = _LoopOrderSearch(block, keys)
    changes = [leaf for leaf in block.leaves if isinstance(leaf, Change)]
    orders = [search.starting_with(first) for first in changes or block.leaves]
    return narrow(_place(block, min(orders, key=_cost, default=())))


def narrow(query: Query) -> Query:
    """The query with each step reduced to the columns and values that are used."""
    used = {name for scalar in scalars_of(query) for name in columns_in(scalar)}
    used.update(f"{step.alias}.{name}" for step in query.sources for name, _ in step.lookup)
    splits = (
        (step.alias, step.split) for step in query.sources if isinstance(step, RelationLoop) and step.split is not None
    )
    used.update(f"{alias}.{name}" for alias, split in splits for name in (*split.key, *split.fixed))
    return replace(query, sources=tuple(_reduced(step, used) for step in query.sources))


def _reduced(step: Step, used: set[str]) -> Step:
    values = tuple(value for value in step.values if f"{step.alias}.{value.name}" in used)
    if isinstance(step, ArrayLoop):
        return step
    if not isinstance(step, RelationLoop):
        return replace(step, values=values)
    return replace(step, columns=tuple(f for f in step.columns if f"{step.alias}.{f.name}" in used), values=values)


def _cost(loops: Sequence[LeafLoop]) -> tuple[int, int]:
    ranks = [loop.rank for loop in loops]
    return ranks.count(BY_SCAN), ranks.count(BY_LOOKUP)


class _LoopOrderSearch:
    """Looks for the best order of a block's leaves.

    The cost of the next leaf depends on the set of bound leaves and not on their order, so each set is solved once
    (dynamic programming). A leaf that is found by its key is taken at once, since it adds no rows; of the others only
    the best kind is considered, which leaves scans to the end.
    """

    def __init__(self, block: QueryBlock, keys: RelationKeys) -> None:
        self._block = block
        self._keys = keys
        self._known: dict[frozenset[str], tuple[LeafLoop, ...]] = {}

    def starting_with(self, first: Leaf) -> tuple[LeafLoop, ...]:
        """The best order that begins with ``first``."""
        return (LeafLoop(first, (), BY_CHANGE), *self._after(frozenset((first.alias,))))

    def _after(self, bound: frozenset[str]) -> tuple[LeafLoop, ...]:
        """The best order of the leaves that are not ``bound`` yet."""
        if bound not in self._known:
            left = [leaf for leaf in self._block.leaves if leaf.alias not in bound]
            reached = [_reach(self._block, leaf, bound, self._keys) for leaf in left]
            best = min((loop.rank for loop in reached), default=BY_KEY)
            tried = [loop for loop in reached if loop.rank == best]
            orders = [(loop, *self._after(bound | {loop.leaf.alias})) for loop in tried[: self._width(best, left)]]
            self._known[bound] = min(orders, key=_cost, default=())
        return self._known[bound]

    def _width(self, rank: int, left: Sequence[Leaf]) -> int:
        """Number of candidates to compare: one if all are equally good, or if there would be too many sets."""
        return 1 if rank != BY_LOOKUP or len(left) > MOST_LEAVES else len(left)


def _reach(block: QueryBlock, leaf: Leaf, bound: Set[str], keys: RelationKeys) -> LeafLoop:
    """The loop that finds the rows of ``leaf`` once the leaves ``bound`` are bound."""
    lookup: dict[str, tuple[str, Scalar, BlockCondition]] = {}
    for condition in block.conditions:
        if leaf.alias in condition.needs and condition.needs <= {leaf.alias, *bound}:
            for name, key in _equality(condition.scalar, leaf):
                lookup.setdefault(name, (name, key, condition))
    rank, names = _rank(leaf, lookup.keys(), keys)
    # Columns in the order of the relation, so that all programs that look them up can share one index.
    return LeafLoop(leaf, tuple(lookup[f.name] for f in leaf.columns if f.name in names), rank)


def _rank(leaf: Leaf, found: Set[str], keys: RelationKeys) -> tuple[int, Set[str]]:
    """Rank of a loop that can look up the columns ``found``, and those of them that it should."""
    key = keys.get(leaf.relation)
    if key is not None and key <= found:
        return BY_KEY, key
    if found:
        return BY_LOOKUP, found
    return (BY_CHANGE if isinstance(leaf, Change) else BY_SCAN), found


def _equality(condition: Scalar, leaf: Leaf) -> Iterator[tuple[str, Scalar]]:
    """Columns of ``leaf`` that ``condition`` equates with an expression over other leaves."""
    match condition:
        case Call(function="eq", arguments=(left, right)) if not may_fail(condition):
            yield from _sides(left, right, leaf)
            yield from _sides(right, left, leaf)


def _sides(side: Scalar, key: Scalar, leaf: Leaf) -> Iterator[tuple[str, Scalar]]:
    # An exact cast keeps the value, so the column can be looked up by the wider key.
    found = side.input if isinstance(side, Cast) and is_exact(side) else side
    own = {f"{leaf.alias}.{f.name}": f.name for f in leaf.columns}
    read = columns_in(key)
    # A comparison with a constant stays a filter: it would only widen the index that the other columns need anyway.
    if isinstance(found, Column) and found.name in own and read and own.keys().isdisjoint(read) and indexable(key):
        yield own[found.name], key


def _place(block: QueryBlock, loops: Sequence[LeafLoop]) -> Query:
    """Each condition at the first loop that binds all it needs; conditions at one loop keep their order."""
    answered = [condition for loop in loops for _, _, condition in loop.lookup]
    aliases = [*(loop.leaf.alias for loop in loops), *(each.alias for each in block.arrays)]
    position = {alias: i for i, alias in enumerate(aliases)}
    at: list[list[Scalar]] = [[] for _ in aliases]
    free = []
    for condition in block.conditions:
        if any(condition is one for one in answered):
            continue
        if condition.needs:
            at[max(position[alias] for alias in condition.needs)].append(condition.scalar)
        else:
            free.append(condition.scalar)
    sources = [_source(loop, filters) for loop, filters in zip(loops, at[: len(loops)], strict=True)]
    elements = zip(block.arrays, at[len(loops) :], strict=True)
    arrays = [replace(each, filters=tuple(filters)) for each, filters in elements]
    return Query((*sources, *arrays), block.outputs, tuple(free))


def _source(loop: LeafLoop, filters: list[Scalar]) -> RelationLoop:
    leaf = loop.leaf
    version = Version.CHANGE if isinstance(leaf, Change) else Version.STATE
    lookup = tuple((name, key) for name, key, _ in loop.lookup)
    return RelationLoop(leaf.relation, leaf.alias, version, leaf.columns, lookup, tuple(filters))
