"""What a change adds to the targets of a stage, and what its whole inputs do: all that strategies share."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tidemill.compiler.blocks import blocks
from tidemill.compiler.derive import derive
from tidemill.compiler.loops import Keys, nest
from tidemill.compiler.stages import Draft
from tidemill.program.statements import Add


def change_of(draft: Draft, name: str, keys: Keys) -> Iterator[Add]:
    """What a change of relation ``name`` adds to each target of the stage."""
    for target, body in draft.sums:
        change = derive(body, name)
        if change is not None:
            yield from (Add(target, nest(block, keys)) for block in blocks(change))


def load_of(draft: Draft, keys: Keys, streams: Set[str]) -> Iterator[Add]:
    """The whole body. A block that reads a stream is empty at the start: a view sees a stream from its own birth on.

    So is one that reads rows of its own recursion.
    """
    for target, body in draft.sums:
        for block in blocks(body):
            if (streams | draft.own).isdisjoint(leaf.relation for leaf in block.leaves):
                yield Add(target, nest(block, keys))
