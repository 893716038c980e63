"""Figures 11 and 13 of MOVIE as data: how the changes of a view are computed for each event, and how they are applied.

Two kinds of plan are enough. A delta is *joined* with the lineage of the view (``vx ⋈ Δ``), which reads no base data;
or it is *planted* in the view's definition in place of the relation that changed, which reads the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidemill.model.events import Event


class ViewClass(Enum):
    """Views by the most complex operator in them."""

    JOIN = "ReduceGet or ReduceGetJoin"
    UNNEST = "Unnest"
    NEST = "Nest"


class Use(Enum):
    """What a view does with a collection: shows it, makes a collection of its elements, or a row of each."""

    PROJECTED = "PC"
    NESTED = "NC"
    UNNESTED = "UC"


class Move(Enum):
    """One way to compute changes, and the state of the changed object that it takes."""

    PLANT_NEW = "plant Δnew"
    JOIN_NEW = "vx ⋈ Δnew"
    JOIN_OLD = "vx ⋈ Δold"

    @property
    def reads_base(self) -> bool:
        """Whether base data may be read."""
        return self is Move.PLANT_NEW


class Effect(Enum):
    """What is done to the extent of the view (VX), or to an attribute of the objects in it (AV)."""

    INSERT_ROW = "insert(VX)"
    DELETE_ROW = "delete(VX)"
    INSERT_VALUE = "insert(AV)"
    DELETE_VALUE = "delete(AV)"
    MODIFY_VALUE = "modify(AV)"


Plan = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the figures: an event, whether it moves a condition attribute, and what the collection is used for."""

    number: int
    event: Event
    condition: bool | None = None
    use: Use | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A plan, and what is done with the changes that each of its moves finds."""

    plan: Plan
    effects: tuple[Effect, ...]


def _everywhere(plan: Plan, *effects: Effect) -> Mapping[ViewClass, Cell]:
    return dict.fromkeys(ViewClass, Cell(plan, effects))


def _nested(plan: Plan, *effects: Effect) -> Mapping[ViewClass, Cell]:
    return {ViewClass.NEST: Cell(plan, effects)}


def _unnested(plan: Plan, *effects: Effect) -> Mapping[ViewClass, Cell]:
    return dict.fromkeys((ViewClass.UNNEST, ViewClass.NEST), Cell(plan, effects))


PLANT, JOIN_NEW, JOIN_OLD = (Move.PLANT_NEW,), (Move.JOIN_NEW,), (Move.JOIN_OLD,)
BOTH = (Move.JOIN_OLD, Move.PLANT_NEW)

FIGURE: Mapping[Case, Mapping[ViewClass, Cell]] = {
    Case(1, Event.INSERT): _everywhere(PLANT, Effect.INSERT_ROW),
    Case(2, Event.INSERT_ELEMENT, use=Use.PROJECTED): _everywhere(JOIN_NEW, Effect.INSERT_VALUE),
    Case(3, Event.INSERT_ELEMENT, use=Use.NESTED): _nested(PLANT, Effect.INSERT_VALUE),
    Case(4, Event.INSERT_ELEMENT, use=Use.UNNESTED): _unnested(PLANT, Effect.INSERT_ROW),
    Case(5, Event.DELETE): _everywhere(JOIN_OLD, Effect.DELETE_ROW),
    Case(6, Event.DELETE_ELEMENT, use=Use.PROJECTED): _everywhere(JOIN_OLD, Effect.DELETE_VALUE),
    Case(7, Event.DELETE_ELEMENT, use=Use.NESTED): _nested(JOIN_OLD, Effect.DELETE_VALUE),
    Case(8, Event.DELETE_ELEMENT, use=Use.UNNESTED): _unnested(JOIN_OLD, Effect.DELETE_ROW),
    Case(9, Event.MODIFY, condition=False): _everywhere(JOIN_NEW, Effect.MODIFY_VALUE),
    Case(10, Event.MODIFY_ELEMENT, condition=False, use=Use.NESTED): _nested(JOIN_NEW, Effect.MODIFY_VALUE),
    Case(11, Event.MODIFY, condition=True): _everywhere(BOTH, Effect.DELETE_ROW, Effect.INSERT_ROW),
    Case(12, Event.MODIFY_ELEMENT, condition=True, use=Use.NESTED): _nested(
        BOTH, Effect.DELETE_VALUE, Effect.INSERT_VALUE
    ),
}
"""Every case, and its cells for the classes of views to which it applies."""


def cell(event: Event, view: ViewClass, *, condition: bool | None = None, use: Use | None = None) -> Cell | None:
    """The plan for an event, and what becomes of its result; None where it does not apply to such views.

    >>> cell(Event.DELETE, ViewClass.NEST).plan
    (<Move.JOIN_OLD: 'vx ⋈ Δold'>,)
    """
    for case, cells in FIGURE.items():
        if (case.event, case.condition, case.use) == (event, condition, use):
            return cells.get(view)
    return None


def entries_without_base_reads() -> tuple[int, int]:
    """How many entries of the figure join a delta with the lineage, and how many there are.

    A cell with two plans has two entries. The text of the paper counts 19 of 29, one less than its figure shows.

    >>> entries_without_base_reads()
    (20, 30)
    """
    moves = [move for row in FIGURE.values() for found in row.values() for move in found.plan]
    return sum(not move.reads_base for move in moves), len(moves)
