"""Recomputation: a change of any input computes the whole stage again. The baseline, and the last resort."""

from __future__ import annotations

from tidemill.algebra.node import Relation
from tidemill.compiler.analysis.blocks import QueryBlock, blocks
from tidemill.compiler.delta.nested_loops import nested_loops
from tidemill.compiler.delta.triggers import change_of
from tidemill.compiler.staging.recursion import with_iteration_trigger
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import Reason, StageContext, Strategy
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Replace, Trigger

AGAIN = Reason("AGAIN", "everything is computed again, so the cost follows the data")


def recompute(draft: StageDraft, context: StageContext) -> Stage:
    """The stage whose triggers replace its state by the sum over all rows, at a cost of O(data) for each epoch.

    What the stage emits is the difference to what it had before, so its readers cannot tell it from one that is kept
    fresh by deltas.
    """
    keys = context.keys
    sums = {
        target: tuple(nested_loops(block, keys) for block in _from_inputs(draft, body)) for target, body in draft.sums
    }
    replacements = tuple(Replace(target, queries) for target, queries in sums.items())
    triggers = tuple(Trigger(name, replacements) for name in draft.inputs)
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=draft.inputs,
        maps=draft.maps,
        load=tuple(Add(target, query) for target, queries in sums.items() for query in queries),
        triggers=triggers,
        finish=with_iteration_trigger(
            draft.emission, {name: Trigger(name, tuple(change_of(draft, name, keys))) for name in draft.own_maps}
        ),
        strategy="recompute",
    )


def _from_inputs(draft: StageDraft, body: Relation) -> list[QueryBlock]:
    """The blocks that read inputs alone: a recursion starts from these, and goes on from rows of its own."""
    return [block for block in blocks(body) if draft.own_maps.isdisjoint(leaf.relation for leaf in block.leaves)]


# What a stream brought is not kept, so there is nothing to compute from again.
STRATEGY = Strategy("recompute", recompute, reason=lambda _: AGAIN, supports_streams=False, keeps_partitions=True)
