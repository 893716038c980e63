"""Time partitions: the inputs of a stage are kept by first-order deltas, its rows computed partition by partition."""

from __future__ import annotations

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.algebra.relational.walk import walk_all
from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import StageContext, Strategy
from tidemill.model.errors import Unsupported
from tidemill.program.stages import Stage, TimePartitionEmission


def partition(draft: StageDraft, context: StageContext) -> Stage:
    """The stage that computes touched partitions again, each from a few others."""
    return first_order_stage(draft, context.keys, context.streams, "partition")


def must_be_partitioned(draft: StageDraft) -> str:
    """The reason why no other strategy can maintain a stage; empty if others can."""
    return "its rows are computed partition by partition" if isinstance(draft.emission, TimePartitionEmission) else ""


def require_partitions(view: str, relation: Relation) -> None:
    """Refuse a view that has no partitions."""
    if not any(isinstance(node, TimePartitioned) for node in walk_all(relation)):
        raise Unsupported(
            f'view "{view}" cannot use strategy "partition"',
            detail="It does not define each partition from other partitions.",
            hint="Use INITIALIZE and UPDATE with subscripts, as in v[i-1], or use strategy auto.",
        )


STRATEGY = Strategy(
    "partition", partition, accept_view=require_partitions, claims=must_be_partitioned, keeps_partitions=True
)
