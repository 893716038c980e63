"""Full outer join tables: every row of a join with all that it meets, as often as it meets something.

Only here to be compared with join graphs. The table is a rewrite (``rewrites.full_outer_join_table``), and first-order
deltas maintain it as they do every other map.
"""

from __future__ import annotations

from tidemill.algebra.node import Relation
from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.rewrites.decorrelate import decorrelate
from tidemill.compiler.rewrites.expand_outer_joins import expand_outer_joins
from tidemill.compiler.rewrites.full_outer_join_table import full_outer_join_table, is_full_outer_join_table
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.rewrites.replace_quantifiers import replace_quantifiers
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import NotAccepted, Reason, StageContext, Strategy
from tidemill.program.stages import Stage

TABLE = Reason("TABLE", "every row is held with all that it meets, as often as it meets something: for comparison only")


def tables_for_joins(relation: Relation) -> Relation:
    """``relation`` over the full outer join tables of its joins."""
    tabled = expand_outer_joins(full_outer_join_table(relation))
    return push_down_filters(decorrelate(replace_quantifiers(tabled)))


def outerjoin(draft: StageDraft, context: StageContext) -> Stage:
    """The stage of a full outer join table."""
    if not any(map(is_full_outer_join_table, draft.maps)):
        raise NotAccepted("it is no such table")
    return first_order_stage(draft, context.keys, context.streams, "outerjoin")


STRATEGY = Strategy("outerjoin", outerjoin, rewrite=tables_for_joins, reason=lambda _: TABLE)
