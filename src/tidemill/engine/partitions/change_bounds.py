"""Change bounds: the instant from which tables and views can still change, and what of their state has expired."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.lateness import accepted_from, floor_of, head_of, retained_from
from tidemill.model.clocks import NOW, instant_of, is_clock
from tidemill.model.errors import Unsupported
from tidemill.model.partition_lengths import period_floor
from tidemill.model.schema import Table
from tidemill.program.expiry.entries import ExpiredEntries, number_of
from tidemill.program.expiry.state import MapExpiry, StateExpiry
from tidemill.program.expiry.time_bounds import TimeBound, TimeBounds
from tidemill.program.stages import Stage, TimePartitionEmission

__all__ = [
    "CatalogExpiry",
    "changeable_from",
    "expiry_of",
    "forgetful_views",
    "heads_at",
    "heads_of",
    "require_bounded",
]


@dataclass
class CatalogExpiry:
    """Expiry of the state of all views: of each map, and from when on tables and views can change."""

    catalog: Catalog
    expiry: StateExpiry
    maps: dict[str, list[MapExpiry]] = field(default_factory=dict)
    """Expiry of the maps of each view whose state can expire, and of the rows of its stages but the last."""

    def add(self, view: View) -> None:
        """Add a view whose inputs are added.

        Changes that a deferred view has yet to take in, and rows in quarantine, may be older than all heads.
        """
        if view.quarantines:
            self.expiry.add_unbounded(view.program)
            return
        self.maps[view.name] = self.expiry.maps_of(view.program)
        self._add_partitions(view)
        if view.refresh.deferred:  # views that share stages with it are refreshed together with it
            self.expiry.bounds.pop(view.name, None)

    def _add_partitions(self, view: View) -> None:
        """A view whose partitions are made from those of its inputs alone is open where they are."""
        cut = view.partitioning
        if cut is None or not view.is_made_by_partitions or (cut.column,) in self.expiry.bounds.get(view.name, {}):
            return
        inputs = [self.changeable_from(name) for name in view.inputs]
        partitions_of_own = any(_makes_partitions(stage) for stage in view.full_program.stages)
        if inputs and None not in inputs and not partitions_of_own:
            low = min(instant for instant in inputs if instant is not None)
            self.expiry.bounds[view.name] = {(cut.column,): TimeBound(period_floor(low, cut.every))}

    def add_rows(self) -> None:
        """Add the rows of stages, once all views are added that may look them up."""
        for found in self.expiry.rows():
            view = found.stage.name.partition("/")[0]
            if view in self.maps:
                self.maps[view].append(found)

    def expired(self, view: View) -> list[ExpiredEntries]:
        """The expired entries of the maps of a view, and the expired rows of its stages."""
        return [found.entries for found in self.maps.get(view.name, ()) if found.entries is not None]

    def changeable_from(self, name: str) -> int | None:
        """The instant from which on a table or view with partitions can change; None if all of it can."""
        entry = self.catalog.entry(name)
        bound = None
        if entry.partitioning is not None:
            bound = self.expiry.bounds.get(name, {}).get((entry.partitioning.column,))
        return None if bound is None or bound.low == math.inf else int(bound.low)


def expiry_of(
    catalog: Catalog,
    positions: Mapping[str, str],
    heads: Mapping[str, int],
    *,
    by_replay: bool = True,
    new: View | None = None,
) -> CatalogExpiry:
    """Expiry of the state of all views, with these heads of tables; ``new`` is a view that is not there yet.

    With ``by_replay`` changes by replayed late changes are included.
    """
    found = CatalogExpiry(catalog, StateExpiry(_of_tables(catalog, positions, heads, by_replay)))
    views = catalog.views if new is None else {**catalog.views, new.name: new}
    for view in views.values() if catalog.late or new else ():
        if view is new or not catalog.late.keys().isdisjoint(catalog.ancestors(view)):
            found.add(view)
    found.add_rows()
    return found


def _of_tables(
    catalog: Catalog, positions: Mapping[str, str], heads: Mapping[str, int], by_replay: bool
) -> dict[str, TimeBounds]:
    known: dict[str, TimeBounds] = {}
    for name, table in catalog.late.items():
        cut = table.partitioning
        if cut is not None and cut.lateness is not None and name in heads:
            bound = retained_from if by_replay else accepted_from
            first = bound(cut, heads[name], floor_of(positions, name))
            if first is not None:
                known[name] = {(cut.column,): TimeBound(first, nulls=_may_be_null(table, cut.column))}
    for name in filter(is_clock, heads):  # a clock never goes back
        known[name] = {(NOW.name,): TimeBound(heads[name], nulls=False)}
    return known


def _may_be_null(table: Table, column: str) -> bool:
    return next(field.nullable for field in table.fields if field.name == column)


def _makes_partitions(stage: Stage) -> bool:
    return isinstance(stage.finish, TimePartitionEmission)


def forgetful_views(catalog: Catalog) -> list[str]:
    """The views that may have forgotten state, or will: changes of old rows cannot come to them any more."""
    found = expiry_of(catalog, {}, heads_at(catalog, 0))
    return [name for name in found.maps if found.expired(catalog.views[name])]


def heads_of(catalog: Catalog, positions: Mapping[str, str]) -> dict[str, int]:
    """The heads of the tables that have one (see ``lateness``), and the instants of clocks."""
    found = {name: head_of(positions, name) for name in catalog.late}
    clocks = {name: instant_of(positions, clock) for name, clock in catalog.clocks.items()}
    instants = {name: number_of(at) for name, at in clocks.items() if at is not None}
    return {name: head for name, head in found.items() if head is not None} | instants


def heads_at(catalog: Catalog, now: int, new: View | None = None) -> dict[str, int]:
    """The heads of all tables and clocks, also of those of a ``new`` view, as if they were at an instant."""
    units = {name: table.partitioning.head_unit for name, table in catalog.late.items() if table.partitioning}
    clocks = [*catalog.clocks, *(filter(is_clock, new.inputs) if new is not None else ())]
    return {name: now // unit for name, unit in units.items()} | dict.fromkeys(clocks, now)


def changeable_from(
    catalog: Catalog, positions: Mapping[str, str], heads: Mapping[str, int], *, by_replay: bool = True
) -> dict[str, int]:
    """The instant from which tables and views can still change, for those with partitions that have such a bound."""
    found = expiry_of(catalog, positions, heads, by_replay=by_replay)
    instants = {name: found.changeable_from(name) for name in catalog.partitionings}
    return {name: instant for name, instant in instants.items() if instant is not None}


def require_bounded(catalog: Catalog, view: View) -> None:
    """Refuse retention for a view without a change bound: a later change may delete any of its rows.

    It may be there already, with other options.
    """
    if not view.forgets:
        return
    found = expiry_of(catalog, {}, heads_at(catalog, 0, view), new=view)
    if view.partitioning is None or (view.partitioning.column,) not in found.expiry.bounds.get(view.name, {}):
        raise Unsupported(
            f'view "{view.name}" cannot forget its partitions',
            detail="Each of them may still change.",
            hint="Declare all that it reads by partitions, with LATENESS or RETAIN, and let it be immediate.",
        )
