"""Rows of views that have identities: read by them, and the events by which they change.

Events are those of objects: a view is an extent and a class. A row that leaves and comes with one identity in one epoch
was modified. They are read from the stored changes of the epoch when somebody asks, so nothing is done for them in
epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidemill.changes.zset import Row
from tidemill.engine.catalog.new_views.view_instances import identified_views, instance_classes, view_of_instance
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.objects.events import ObjectEvent
from tidemill.engine.subscriptions.change_batches import stored_batches
from tidemill.model.classes import Attribute, ObjectClass
from tidemill.model.coerce import present
from tidemill.model.errors import DanglingReference
from tidemill.model.update_events import UpdateEvent

__all__ = ["ViewInstances"]


class ViewInstances:
    """The rows of all views with identities, as of the last epoch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def view_of(self, oid: str) -> View:
        """The view to which an identity belongs."""
        view = view_of_instance(self._engine.catalog, oid)
        if view is None:
            known = ", ".join(view.name for view in identified_views(self._engine.catalog)) or "none"
            raise DanglingReference(f"there is no object {oid!r}", hint=f"Views whose rows have identities: {known}.")
        return view

    def get(self, oid: str) -> dict[str, Any]:
        """A row by its identity, by the names of its columns."""
        view = self.view_of(oid)
        with self._engine.settled():
            rows = self._engine.placement.lookup.find(view.name, (0,), [(oid,)]).get((oid,))
        if not rows:
            raise DanglingReference(f"there is no object {oid!r}", detail=f'View "{view.name}" has no such row now.')
        return {f.name: present(value, f.type) for f, value in zip(view.fields, rows[0], strict=True)}

    def with_events(self, events: list[ObjectEvent], epoch: int) -> Iterator[ObjectEvent]:
        """The events of an epoch, and those of rows of views that follow from it."""
        yield from events
        views = {view.name: self._class_of(view) for view in identified_views(self._engine.catalog)}
        for view in identified_views(self._engine.catalog):
            own = list(self._of_view(view, views[view.name], epoch))
            yield from own
            events = [*events, *own]
        modified: dict[str, dict[Any, None]] = {}
        for event in events:
            if event.event is UpdateEvent.MODIFY:
                modified.setdefault(event.place, {})[event.oid] = None
        for name, found in views.items():
            yield from self._within_collections(name, found, modified)

    def _class_of(self, view: View) -> ObjectClass:
        return instance_classes(self._engine.catalog, view.name)[view.name]

    def _of_view(self, view: View, found: ObjectClass, epoch: int) -> Iterator[ObjectEvent]:
        """The events of one view in an epoch."""
        for batch in stored_batches(self._engine, view, epoch - 1):
            if batch.epoch != epoch:
                continue
            gone = {row[0]: row for row, weight in batch.net.items() if weight < 0}
            come = {row[0]: row for row, weight in batch.net.items() if weight > 0}
            for oid in dict.fromkeys((*gone, *come)):
                if oid not in come:
                    yield ObjectEvent(UpdateEvent.DELETE, view.name, oid, implicit=True)
                elif oid not in gone:
                    yield ObjectEvent(UpdateEvent.INSERT, view.name, oid, implicit=True)
                else:
                    yield from _of_row(found, gone[oid], come[oid])

    def _within_collections(
        self, view: str, found: ObjectClass, modified: Mapping[str, Iterable[Any]]
    ) -> Iterator[ObjectEvent]:
        """The events of rows that have a modified object, or row of a view, in a collection."""
        for place, attribute in enumerate(found.attributes, start=1):
            if attribute.collection is None or attribute.target is None:
                continue
            for step, oids in modified.items():
                if step.partition(".")[0] != attribute.target:
                    continue
                for oid in oids:
                    for row in self._holders(view, place, oid):
                        inner = f"{view}.{attribute.name}({step})"
                        yield ObjectEvent(UpdateEvent.MODIFY_ELEMENT, inner, row[0], oid, implicit=True)

    def _holders(self, view: str, place: int, oid: Any) -> list[Row]:
        with self._engine.settled():
            return sorted(self._engine.placement.lookup.holders(view, place, [oid]), key=lambda row: str(row[0]))


def _of_row(found: ObjectClass, old: Row, new: Row) -> Iterator[ObjectEvent]:
    for attribute, before, after in zip(found.attributes, old[1:], new[1:], strict=True):
        if before != after:
            yield from _of_attribute(f"{found.name}.{attribute.name}", attribute, new[0], before, after)


def _of_attribute(place: str, attribute: Attribute, oid: str, old: Any, new: Any) -> Iterator[ObjectEvent]:
    moves: list[tuple[UpdateEvent, Any]] = []
    if attribute.collection is not None:
        before, after = Counter(old or ()), Counter(new or ())
        moves += [(UpdateEvent.DELETE_ELEMENT, element) for element in (before - after).elements()]
        moves += [(UpdateEvent.INSERT_ELEMENT, element) for element in (after - before).elements()]
    for event, element in moves:
        yield ObjectEvent(event, place, oid, element, implicit=True)
    if not moves:  # of a list, the order
        yield ObjectEvent(UpdateEvent.MODIFY, place, oid, implicit=True)
