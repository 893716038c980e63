"""State that only deletions need, left out where nothing is ever deleted.

A table that is APPEND ONLY has no deletions, and neither has a view or stage of filters, projections, joins and unions
over such relations. Stages that aggregate emit their old rows as deletions. MIN and MAX keep a multiset of values so
that the next one is known when the least or greatest leaves, and top-k all rows; where none leaves, that one value and
the first k rows are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project, Scan, UnionAll, Unnest, Values
from tidemill.algebra.relational.walk import expressions, subqueries, walk_all
from tidemill.compiler.staging.stages import DraftMap, StageDraft
from tidemill.program.stages import GroupEmission, MultisetRead, PartitionEmission

ROW_WISE = (Filter, Join, Project, Scan, UnionAll, Unnest, Values)
"""Relations that only grow while what they read does."""


def only_grows(relation: Relation) -> bool:
    """True if no row of ``relation`` leaves as long as none leaves what it reads.

    >>> from tidemill.algebra.relational.relations import Distinct
    >>> visits = Scan("visits", "v", ())
    >>> only_grows(UnionAll((visits, visits))), only_grows(Distinct(visits))
    (True, False)
    """
    nodes = list(walk_all(relation))
    asks = any(subqueries(scalar) for node in nodes for scalar in expressions(node))
    return not asks and all(isinstance(node, ROW_WISE) for node in nodes)


def without_deletions(drafts: Iterable[StageDraft], appended: Set[str]) -> list[StageDraft]:
    """The stages of a view over the relations ``appended``, from which nothing is deleted, and others."""
    known, found = set(appended), []
    for draft in drafts:
        if known.issuperset(draft.inputs) and not draft.has_subqueries:
            draft = _with_single_ends(draft)
            if isinstance(draft.emission, PartitionEmission):
                draft = replace(draft, emission=replace(draft.emission, grows=True))
            if draft.emission is None:
                known.add(draft.name)
        found.append(draft)
    return found


def _with_single_ends(draft: StageDraft) -> StageDraft:
    """The stage with one map for each MIN or MAX, which keeps only that end of the multiset."""
    emission = draft.emission
    if not isinstance(emission, GroupEmission) or not emission.multiset_reads:
        return draft
    others = {read.map for read in emission.multiset_reads if _end_of(read) is None}
    extra = {one.map.name: one for one in draft.extra_maps}
    maps = {name: one for name, one in extra.items() if name in others}
    reads: list[MultisetRead] = []
    for read in emission.multiset_reads:
        end = _end_of(read)
        if read.map not in others and end is not None:
            read = replace(read, map=f"{read.map}_{end.value}")
            maps[read.map] = _keeping(extra[read.map.removesuffix(f"_{end.value}")], read.map, end)
        reads.append(read)
    return replace(draft, extra_maps=tuple(maps.values()), emission=replace(emission, multiset_reads=tuple(reads)))


def _end_of(read: MultisetRead) -> MultisetEnd | None:
    """The end at which an aggregate finds its value; None if it reads more than that."""
    function = function_of(read.call)
    return None if function.by_second else function.end


def _keeping(multiset: DraftMap, name: str, end: MultisetEnd) -> DraftMap:
    return replace(multiset, map=replace(multiset.map, name=name, end=end))
