"""First-order deltas: each change is joined with the state of the other inputs and added to what is there.

A trigger of relation R sums the blocks of ``derive(body, R)``. Its loops start at the change and go on by lookups, so
the cost follows the change and what it joins with. Inputs that were handled earlier in the epoch show their new rows,
the others their old ones, which makes an epoch over many tables exact (see ``program.statements``).
"""

from __future__ import annotations

from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import StageContext, Strategy
from tidemill.program.stages import Stage


def delta(draft: StageDraft, context: StageContext) -> Stage:
    """The stage whose triggers add the change of its body."""
    return first_order_stage(draft, context.keys, context.streams, "delta", context.references)


STRATEGY = Strategy("delta", delta, is_compared=lambda _: True)
