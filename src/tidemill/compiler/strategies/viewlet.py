"""Viewlets: deltas of deltas are materialized as well, so that each trigger only adds up stored sums.

A first-order delta joins the change with the other relations. Here the other relations are joined in a map that
is maintained by its own delta, so most statements are one lookup and one addition. See ``compiler.viewlets``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.compiler.analysis.foreign_keys import parents_first
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.strategies.strategy import NotAccepted, Reason, StageContext, Strategy, StrategyOption
from tidemill.compiler.viewlets.auxiliary_views import AuxiliaryViews
from tidemill.compiler.viewlets.depths import DEPTHS, Depth
from tidemill.compiler.viewlets.materialization_costs import MaterializationCosts
from tidemill.compiler.viewlets.materialize import Materialization
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery, NotViewlet
from tidemill.compiler.viewlets.ring_calculus.translate import translate
from tidemill.compiler.viewlets.transform import Transform
from tidemill.program.maps import Map
from tidemill.program.stages import IterationEmission, Stage

VIEWLET = Reason("VIEWLET", "the joins of a change are materialized as sums, so a change costs lookups and additions")


def viewlet(draft: StageDraft, context: StageContext) -> Stage:
    """The stage whose triggers add to its map from maps of lower degree."""
    try:
        return _transformed(draft, context)
    except NotViewlet as refusal:
        raise NotAccepted(str(refusal)) from refusal


def _transformed(draft: StageDraft, context: StageContext) -> Stage:
    keys, streams, static = context.keys, context.streams, context.static
    if draft.extra_maps:
        raise NotViewlet("it has aggregates other than sums")
    if isinstance(draft.emission, IterationEmission):
        raise NotViewlet("it is recursive: rows follow from rows of the iteration before")
    target = draft.map or Map(draft.name, draft.output)
    queries = translate(draft)
    # A trigger that reads sums must see each row's effect on them, so it takes one row at a time: with nested
    # aggregates always, with sums over ranges if the transform uses them. It also loads the maps, so all relations need
    # a trigger.
    row_by_row = any(query.lifts for query in queries)
    costs = MaterializationCosts(keys, queries, frozenset() if row_by_row else static)
    depth = _depth(context.options["depth"], queries)
    decisions = Materialization(
        AuxiliaryViews(draft.name), depth, keys, costs, row_by_row, grouped=draft.map is not None
    )
    # Triggers for single rows rely on no foreign key.
    unread, references = (frozenset[str](), ()) if row_by_row else (static, context.references)
    kept = Transform(target, queries, draft.inputs, decisions, streams, unread, references).run()
    if not row_by_row and kept.reads_sums:
        decisions = replace(
            decisions, views=AuxiliaryViews(draft.name), costs=MaterializationCosts(keys, queries), row_by_row=True
        )
        kept = Transform(target, queries, draft.inputs, decisions, streams).run()
    inputs = parents_first(draft.inputs, kept.references)
    return Stage(
        name=draft.name,
        output=draft.output,
        inputs=inputs,
        maps=(*draft.maps, *kept.maps),
        load=kept.load,
        triggers=tuple(sorted(kept.triggers, key=lambda trigger: inputs.index(trigger.relation))),
        finish=draft.emission,
        strategy="viewlet",
        references=kept.references,
    )


def _depth(name: str, queries: Sequence[CalculusQuery]) -> Depth:
    """The depth of that name, as far as these queries allow it.

    Ranges give sums, but sums of DOUBLEs are made of rows. And ranges are for single rows, whose triggers fill the
    maps: a row that comes from no relation would not be there.
    """
    depth = DEPTHS[name]
    return replace(depth, ranges=depth.ranges and not any(query.rounds or not query.atoms for query in queries))


STRATEGY = Strategy(
    "viewlet",
    viewlet,
    missing="no viewlets",
    options=(StrategyOption("depth", tuple(DEPTHS), default="full"),),
    reason=lambda _: VIEWLET,
    is_compared=lambda _: True,
    takes_subqueries=True,
)
