"""Recomputation: a change of any input computes the whole stage again. The baseline, and the last resort."""

from __future__ import annotations

from collections.abc import Set

from tidemill.compiler.blocks import blocks
from tidemill.compiler.loops import Keys, nest
from tidemill.compiler.stages import Draft
from tidemill.program.statements import Add, Replace, Stage, Trigger

SUPPORTS_STREAMS = False
"""What a stream brought is not kept, so there is nothing to compute from again."""


def recompute(draft: Draft, keys: Keys, streams: Set[str]) -> Stage:
    """The stage whose triggers replace its state by the sum over all rows, at a cost of O(data) for each epoch.

    What the stage emits is the difference to what it had before, so its readers cannot tell it from one that is kept
    fresh by deltas.
    """
    assert streams.isdisjoint(draft.inputs), "the chooser lets no stream come here"
    queries = tuple(nest(block, keys) for block in blocks(draft.body))
    triggers = tuple(Trigger(name, (Replace(draft.target, queries),)) for name in draft.inputs)
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=() if draft.map is None else (draft.map,),
        load=tuple(Add(draft.target, query) for query in queries),
        triggers=triggers,
        finish=draft.finish,
        strategy="recompute",
    )
