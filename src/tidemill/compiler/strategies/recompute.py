"""Recomputation: a change of any input recomputes the whole stage. The baseline for comparisons."""

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

AGAIN = Reason("AGAIN", "everything is recomputed, so the cost follows the data")


def recompute(draft: StageDraft, context: StageContext) -> Stage:
    """The stage whose triggers replace its state by the sum over all rows, at a cost of O(data) for each epoch.

    The stage emits the difference to its old rows, so its readers see the same changes as from a stage that is
    maintained by deltas.
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
    """The blocks that read only inputs, not the stage's own maps: the base of a recursion."""
    return [block for block in blocks(body) if draft.own_maps.isdisjoint(leaf.relation for leaf in block.leaves)]


# Rows of a stream are not kept, so nothing can be recomputed from them.
STRATEGY = Strategy("recompute", recompute, reason=lambda _: AGAIN, supports_streams=False, keeps_partitions=True)
