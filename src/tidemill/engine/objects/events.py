"""The events of an epoch of objects: its net changes as events of six kinds, including implicit ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidemill.engine.objects.draft import DraftObject, ObjectDraft
from tidemill.model.array_tree import splices
from tidemill.model.classes import Attribute
from tidemill.model.update_events import Listening, UpdateEvent

__all__ = ["ObjectEvent", "events_of"]


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event: its kind and place, the object or row of a view, and the element of a collection.

    It is ``implicit`` if it follows from another event: of the inverse of a relationship, or of a modified element.
    """

    event: UpdateEvent
    place: str
    oid: int | str
    element: Any = None
    implicit: bool = False

    @property
    def listening(self) -> Listening:
        """The subscription of views that receive this event."""
        return Listening(self.event, self.place)

    def __str__(self) -> str:
        element = "" if self.element is None else f" {self.element!r}"
        return f"{self.listening} {self.oid}{element}{' (implicit)' if self.implicit else ''}"


def events_of(draft: ObjectDraft) -> Iterator[ObjectEvent]:
    """The net events of a committed epoch. An object of a subclass has them once for each of its classes."""
    for record in draft.records.values():
        if record.old == record.new:
            continue
        if record.old is None or record.new is None:
            yield from _of_extent(draft, record)
        else:
            for attribute in draft.module.attributes[record.cls].values():
                yield from _of_attribute(draft, record, attribute)


def _of_extent(draft: ObjectDraft, record: DraftObject) -> Iterator[ObjectEvent]:
    event = UpdateEvent.INSERT if record.old is None else UpdateEvent.DELETE
    for cls in draft.module.lines[record.cls]:
        yield ObjectEvent(event, draft.module.stored[cls].name, record.oid)


def _of_attribute(draft: ObjectDraft, record: DraftObject, attribute: Attribute) -> Iterator[ObjectEvent]:
    assert record.old is not None and record.new is not None
    name = attribute.name
    old, new = record.old[name], record.new[name]
    if old == new:
        return
    homes = [cls for cls in draft.module.lines[record.cls] if name in draft.module.attributes[cls]]
    if attribute.collection is not None:
        before, after = Counter[Any](), Counter[Any]()
        for splice in splices(old, new):
            before.update(splice.old)
            after.update(splice.new)
        moves = [(UpdateEvent.DELETE_ELEMENT, e) for e in (before - after).elements()]
        moves += [(UpdateEvent.INSERT_ELEMENT, e) for e in (after - before).elements()]
        for event, element in moves:
            implicit = draft.explicit.isdisjoint({(record.oid, name, None), (record.oid, name, element)})
            for cls in homes:
                yield ObjectEvent(event, f"{cls}.{name}", record.oid, element, implicit)
        if moves:
            return
    implicit = (record.oid, name, None) not in draft.explicit
    for cls in homes:
        yield ObjectEvent(UpdateEvent.MODIFY, f"{cls}.{name}", record.oid, implicit=implicit)
    yield from _within_collections(draft, record, name)


def _within_collections(draft: ObjectDraft, record: DraftObject, name: str) -> Iterator[ObjectEvent]:
    """The implicit events of a modified object for the collections that contain it."""
    for owner in draft.module.stored:
        for collection in draft.module.attributes[owner].values():
            if collection.collection is None or collection.target is None:
                continue
            if not draft.is_a(record, collection.target) or name not in draft.module.attributes[collection.target]:
                continue
            for holder in _holders(draft, record, owner, collection):
                place = f"{owner}.{collection.name}({collection.target}.{name})"
                yield ObjectEvent(UpdateEvent.MODIFY_ELEMENT, place, holder, record.oid, implicit=True)


def _holders(draft: ObjectDraft, record: DraftObject, owner: str, collection: Attribute) -> list[int]:
    """The objects of a class that have the object in a collection: from the inverse if there is one, or the index."""
    if collection.inverse is None:
        return sorted(row[0] for row in draft.stored.referring(owner, collection, [record.oid]))
    back = draft.inverse(collection)
    held = record.values[back.name]
    oids = set(held) if back.collection is not None else {held} - {None}
    return sorted(draft.stored.holding(oids, owner))
