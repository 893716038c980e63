"""Change bounds: the instant from which tables and views can still change."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View
from tidemill.engine.partitions.lateness import accepted_from, floor_of, head_of, retained_from
from tidemill.model.errors import Unsupported
from tidemill.program.state_expiry import ExpiredEntries, StateExpiry

__all__ = ["changeable_from", "forgettable_state", "heads_of", "require_bounded"]


def forgettable_state(catalog: Catalog, view: View, known: Mapping[str, int]) -> list[ExpiredEntries]:
    """The expired state of a view by partitions, given the change bounds ``known`` of tables and views."""
    return list(StateExpiry(catalog.partitionings, dict(known)).of(view.full_program))


def heads_of(catalog: Catalog, positions: Mapping[str, str]) -> dict[str, int]:
    """The heads of the tables that have one (see ``lateness``)."""
    found = {name: head_of(positions, name) for name in catalog.late}
    return {name: head for name, head in found.items() if head is not None}


def changeable_from(
    catalog: Catalog, positions: Mapping[str, str], heads: Mapping[str, int], *, by_replay: bool = True
) -> dict[str, int]:
    """The instant from which tables and views can still change, for those that have such a bound.

    With ``by_replay`` changes by replayed late changes are included.
    """
    known: dict[str, int] = {}
    for name, table in catalog.late.items():
        cut = table.partitioning
        if cut is not None and cut.lateness is not None and name in heads:
            floor = floor_of(positions, name)
            bound = retained_from if by_replay else accepted_from
            first = bound(cut, heads[name], floor)
            if first is not None:
                known[name] = first
    for view in catalog.views.values():
        _open(catalog, view, known)
    return known


def _open(catalog: Catalog, view: View, known: dict[str, int]) -> None:
    """Add the change bound of a view. A deferred view has none: its changes may be older than all heads."""
    if view.partitioning is not None and not view.refresh.deferred:
        found = StateExpiry(catalog.partitionings, dict(known))
        list(found.of(view.full_program))
        if view.name in found.opens:
            known[view.name] = found.opens[view.name]


def require_bounded(catalog: Catalog, view: View) -> None:
    """Refuse retention for a view without a change bound: a later change may delete any of its rows."""
    known = changeable_from(catalog, {}, dict.fromkeys(catalog.late, 0))
    _open(catalog, view, known)
    if view.forgets and view.name not in known:
        raise Unsupported(
            f'view "{view.name}" cannot forget its partitions',
            detail="Each of them may still change.",
            hint="Declare all that it reads by partitions, with LATENESS or RETAIN, and let it be immediate.",
        )
