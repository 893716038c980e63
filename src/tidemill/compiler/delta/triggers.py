"""What a change adds to the targets of a stage, and what its whole inputs do: all that strategies share."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tidemill.compiler.analysis.blocks import blocks
from tidemill.compiler.delta.derive import derive
from tidemill.compiler.delta.nested_loops import RelationKeys, nested_loops
from tidemill.compiler.staging.stages import StageDraft
from tidemill.program.statements import Add


def change_of(draft: StageDraft, name: str, keys: RelationKeys) -> Iterator[Add]:
    """What a change of relation ``name`` adds to each target of the stage."""
    for target, body in draft.sums:
        change = derive(body, name)
        if change is not None:
            yield from (Add(target, nested_loops(block, keys)) for block in blocks(change))


def load_of(draft: StageDraft, keys: RelationKeys, streams: Set[str]) -> Iterator[Add]:
    """The whole body. A block that reads a stream is empty at the start: a view sees a stream from its own birth on.

    So is one that reads rows of its own recursion.
    """
    for target, body in draft.sums:
        for block in blocks(body):
            if (streams | draft.own).isdisjoint(leaf.relation for leaf in block.leaves):
                yield Add(target, nested_loops(block, keys))
