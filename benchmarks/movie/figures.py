"""Figures 11 and 13 of MOVIE as data: how the changes of a view are computed for each event, and how they are applied.

The compiler reads the plans off its programs; here is what the paper says, to be compared with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidemill.compiler.frontends.oql.algebra.attributes_read import CollectionUse
from tidemill.compiler.lineage.self_maintenance import DeltaMethod, MaintenancePlan
from tidemill.model.update_events import UpdateEvent


class ViewComplexity(Enum):
    """Views by the most complex operator in them."""

    JOIN = "ReduceGet or ReduceGetJoin"
    UNNEST = "Unnest"
    NEST = "Nest"


class Effect(Enum):
    """Operation on the extent of the view (VX), or on an attribute of the objects in it (AV)."""

    INSERT_ROW = "insert(VX)"
    DELETE_ROW = "delete(VX)"
    INSERT_VALUE = "insert(AV)"
    DELETE_VALUE = "delete(AV)"
    MODIFY_VALUE = "modify(AV)"


@dataclass(frozen=True, slots=True)
class EventCase:
    """A row of the figures: an event, whether it moves a condition attribute, and what the collection is used for."""

    number: int
    event: UpdateEvent
    condition: bool | None = None
    use: CollectionUse | None = None


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A plan, and what is done with the changes that each of its moves finds."""

    plan: MaintenancePlan
    effects: tuple[Effect, ...]


def _everywhere(plan: MaintenancePlan, *effects: Effect) -> Mapping[ViewComplexity, PlanEntry]:
    return dict.fromkeys(ViewComplexity, PlanEntry(plan, effects))


def _nested(plan: MaintenancePlan, *effects: Effect) -> Mapping[ViewComplexity, PlanEntry]:
    return {ViewComplexity.NEST: PlanEntry(plan, effects)}


def _unnested(plan: MaintenancePlan, *effects: Effect) -> Mapping[ViewComplexity, PlanEntry]:
    return dict.fromkeys((ViewComplexity.UNNEST, ViewComplexity.NEST), PlanEntry(plan, effects))


PLANT, JOIN_NEW, JOIN_OLD = (DeltaMethod.PLANT_NEW,), (DeltaMethod.JOIN_NEW,), (DeltaMethod.JOIN_OLD,)
BOTH = (DeltaMethod.JOIN_OLD, DeltaMethod.PLANT_NEW)

MAINTENANCE_PLANS: Mapping[EventCase, Mapping[ViewComplexity, PlanEntry]] = {
    EventCase(1, UpdateEvent.INSERT): _everywhere(PLANT, Effect.INSERT_ROW),
    EventCase(2, UpdateEvent.INSERT_ELEMENT, use=CollectionUse.PROJECTED): _everywhere(JOIN_NEW, Effect.INSERT_VALUE),
    EventCase(3, UpdateEvent.INSERT_ELEMENT, use=CollectionUse.NESTED): _nested(PLANT, Effect.INSERT_VALUE),
    EventCase(4, UpdateEvent.INSERT_ELEMENT, use=CollectionUse.UNNESTED): _unnested(PLANT, Effect.INSERT_ROW),
    EventCase(5, UpdateEvent.DELETE): _everywhere(JOIN_OLD, Effect.DELETE_ROW),
    EventCase(6, UpdateEvent.DELETE_ELEMENT, use=CollectionUse.PROJECTED): _everywhere(JOIN_OLD, Effect.DELETE_VALUE),
    EventCase(7, UpdateEvent.DELETE_ELEMENT, use=CollectionUse.NESTED): _nested(JOIN_OLD, Effect.DELETE_VALUE),
    EventCase(8, UpdateEvent.DELETE_ELEMENT, use=CollectionUse.UNNESTED): _unnested(JOIN_OLD, Effect.DELETE_ROW),
    EventCase(9, UpdateEvent.MODIFY, condition=False): _everywhere(JOIN_NEW, Effect.MODIFY_VALUE),
    EventCase(10, UpdateEvent.MODIFY_ELEMENT, condition=False, use=CollectionUse.NESTED): _nested(
        JOIN_NEW, Effect.MODIFY_VALUE
    ),
    EventCase(11, UpdateEvent.MODIFY, condition=True): _everywhere(BOTH, Effect.DELETE_ROW, Effect.INSERT_ROW),
    EventCase(12, UpdateEvent.MODIFY_ELEMENT, condition=True, use=CollectionUse.NESTED): _nested(
        BOTH, Effect.DELETE_VALUE, Effect.INSERT_VALUE
    ),
}
"""Every case, and its cells for the classes of views to which it applies."""


def plan_entry(
    event: UpdateEvent, view: ViewComplexity, *, condition: bool | None = None, use: CollectionUse | None = None
) -> PlanEntry | None:
    """The plan for an event, and what becomes of its result; None where it does not apply to such views.

    >>> plan_entry(UpdateEvent.DELETE, ViewComplexity.NEST).plan
    (<DeltaMethod.JOIN_OLD: 'vx ⋈ Δold'>,)
    """
    for case, cells in MAINTENANCE_PLANS.items():
        if (case.event, case.condition, case.use) == (event, condition, use):
            return cells.get(view)
    return None


def entries_without_base_reads() -> tuple[int, int]:
    """Number of entries of the figure that join a delta with the lineage, and how many there are.

    A cell with two plans has two entries. The text of the paper counts 19 of 29, one less than its figure shows.

    >>> entries_without_base_reads()
    (20, 30)
    """
    moves = [move for row in MAINTENANCE_PLANS.values() for found in row.values() for move in found.plan]
    return sum(move is not DeltaMethod.PLANT_NEW for move in moves), len(moves)
