"""Draft of an epoch of objects: the old and the new state of each object that was touched.

Operations change only the draft. Old and new are compared at the end, so operations that cancel out leave no change,
and no table changes before all checks have passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.objects.attribute_values import (
    attribute_value,
    collection_element,
    has_element,
    with_element,
    without_element,
)
from tidemill.engine.objects.stored_objects import AttributeValues, StoredObjects
from tidemill.model.classes import Attribute, Collection
from tidemill.model.errors import BadValue, DanglingReference, UnknownName, Unsupported

Touch = tuple[int, str | None, Any]
"""An object, one of its attributes (None: the object itself), and an element of that (None: all of it)."""


@dataclass(slots=True)
class DraftObject:
    """An object before the epoch and now; None while it does not exist."""

    oid: int
    cls: str
    old: Mapping[str, Any] | None
    new: AttributeValues | None

    @property
    def values(self) -> AttributeValues:
        """Its present attributes."""
        assert self.new is not None
        return self.new


class ObjectDraft:
    """The touched objects, by identity. ``explicit`` are the changes that operations named; all others follow."""

    def __init__(self, module: ObjectModule, stored: StoredObjects, last: int) -> None:
        self.module = module
        self.stored = stored
        self.records: dict[int, DraftObject] = {}
        self.explicit: set[Touch] = set()
        self.last = last
        self._noted: dict[int, set[int]] = {}

    # -- operations ---------------------------------------------------------------------------------------------

    def create(self, cls: str, given: Mapping[str, Any]) -> int:
        """Create an object of a class; attributes that are not given are NULL, collections empty."""
        attributes = self.module.attributes_of(cls)
        self.module.require_creatable(cls)
        values = self._checked(cls, given, f"new {cls}")
        self.last += 1
        empty = {name: None if a.collection is None else () for name, a in attributes.items()}
        record = self.records[self.last] = DraftObject(self.last, cls, None, empty)
        self.explicit.add((record.oid, None, None))
        for name, value in values.items():
            self._assign(record, attributes[name], value)
        return record.oid

    def modify(self, oid: int, given: Mapping[str, Any]) -> None:
        """Set attributes; for a collection, all its elements."""
        record = self.look(oid, having=given)
        attributes = self.module.attributes[record.cls]
        for name, value in self._checked(record.cls, given, _called(record)).items():
            self._assign(record, attributes[name], value)

    def insert(self, oid: int, name: str, value: Any, at: int | None) -> None:
        """Insert an element into a collection; in a list at a position, or at its end."""
        record, attribute = self._collection(oid, name)
        where = f"{_called(record)}.{attribute.name}"
        if at is not None and attribute.collection is not Collection.LIST:
            raise Unsupported(f'the elements of "{attribute.name}" have no places', where=where, hint="Leave at out.")
        element = collection_element(attribute, value, where)
        self._require(attribute, [element], where)
        self.explicit.add((record.oid, attribute.name, element))
        before = record.values[attribute.name]
        if attribute.inverse is not None:
            self.link(record, attribute, self.look(element))
        elif attribute.collection is not Collection.SET or not has_element(attribute, before, element):
            self._add(record, attribute, element)
            self._note(record, attribute, [element])
        if at is not None and len(record.values[attribute.name]) > len(before):
            record.values[attribute.name] = with_element(attribute, before, element, at)

    def remove(self, oid: int, name: str, value: Any) -> None:
        """Remove one occurrence of an element from a collection."""
        record, attribute = self._collection(oid, name)
        where = f"{_called(record)}.{attribute.name}"
        element = collection_element(attribute, value, where)
        if not has_element(attribute, record.values[attribute.name], element):
            raise UnknownName(f'{element!r} is no element of "{attribute.name}"', where=where)
        self.explicit.add((record.oid, attribute.name, element))
        if attribute.inverse is not None:
            self.unlink(record, attribute, self.look(element))
        else:
            self._drop(record, attribute, element)

    def delete(self, oid: int, *, clear: bool) -> None:
        """Delete an object and its relationships; ``clear`` also removes references to it without an inverse."""
        record = self.look(oid)
        if clear:
            self._clear(record)
        for attribute in self.module.attributes[record.cls].values():
            if attribute.inverse is not None:
                held = record.values[attribute.name]
                for other in [held] if attribute.collection is None and held is not None else held or ():
                    self.unlink(record, attribute, self.look(other))
        self.explicit.add((oid, None, None))
        record.new = None

    def _clear(self, record: DraftObject) -> None:
        """Remove all references without an inverse to ``record``."""
        for other, attribute in list(self.referrers([record])):
            if other.oid == record.oid:
                continue
            self._drop(other, attribute, record.oid)
            while attribute.collection is not None and self._holds(other, attribute, record.oid):
                self._drop(other, attribute, record.oid)

    # -- objects ------------------------------------------------------------------------------------------------

    def look(self, oid: int, having: Iterable[str] = ()) -> DraftObject:
        """The record of an existing object; classes that lack an attribute of ``having`` are searched last."""
        record = self.seen(oid, having)
        if record is None or record.new is None:
            raise DanglingReference(f"there is no object {oid}", hint=_why_gone(record))
        return record

    def seen(self, oid: int, having: Iterable[str] = ()) -> DraftObject | None:
        """The record of an object, even if it was deleted in this draft; None if it never existed."""
        record = self.records.get(oid)
        if record is None:
            found = self.stored.find(oid, self.module.tops_having(frozenset(having))) or self.stored.find(oid)
            if found is not None:
                record = self.records[oid] = DraftObject(oid, found.cls, found.values, dict(found.values))
        return record

    def is_a(self, record: DraftObject, cls: str) -> bool:
        """True if an object is of a class or one of its subclasses."""
        return any(above.name == cls for above in self.module.schema.line(record.cls))

    def referrers(self, gone: Iterable[DraftObject]) -> Iterator[tuple[DraftObject, Attribute]]:
        """The present referrers to some objects, by references without an inverse: from the index or this draft."""
        by_class: dict[str, set[int]] = {}
        for record in gone:
            by_class.setdefault(record.cls, set()).add(record.oid)
        for cls, oids in by_class.items():
            noted = set().union(*(self._noted.get(oid, ()) for oid in oids))
            for home, attribute in self.module.referring_to(cls):
                stored = (row[0] for row in self.stored.referring(home, attribute, oids))
                for oid in dict.fromkeys((*stored, *sorted(noted))):
                    record = self.records.get(oid) or self.look(oid)
                    if record.new is not None and self.is_a(record, home):
                        held = record.new[attribute.name]
                        if held in oids if attribute.collection is None else not oids.isdisjoint(held):
                            yield record, attribute

    def _note(self, record: DraftObject, attribute: Attribute, value: Any) -> None:
        """Record a new reference without an inverse; it may change again, so readers check the present value."""
        if attribute.target is not None and attribute.inverse is None and value is not None:
            for oid in [value] if attribute.collection is None else value:
                self._noted.setdefault(oid, set()).add(record.oid)

    # -- values -------------------------------------------------------------------------------------------------

    def _checked(self, cls: str, given: Mapping[str, Any], where: str) -> AttributeValues:
        attributes = self.module.attributes[cls]
        values: AttributeValues = {}
        for spelled, value in given.items():
            attribute = attributes.get(spelled.lower())
            if attribute is None:
                raise _no_attribute(cls, spelled, attributes, where)
            place = f"{where}.{attribute.name}"
            values[attribute.name] = inner = attribute_value(attribute, value, place)
            if inner is not None:
                self._require(attribute, inner if attribute.collection is not None else [inner], place)
        return values

    def _require(self, attribute: Attribute, oids: Iterable[Any], where: str) -> None:
        """Refuse references to objects that do not exist or are of the wrong class."""
        if attribute.target is None:
            return
        for oid in oids:
            record = self.records.get(oid) or self._referred(oid, attribute.target)
            if record is None or record.new is None:
                raise DanglingReference(
                    f"there is no object {oid} to refer to",
                    where=where,
                    detail=f'Attribute "{attribute.name}" refers to objects of class "{attribute.target}".',
                    hint=_why_gone(record),
                )
            if not self.is_a(record, attribute.target):
                raise BadValue(
                    f'object {oid} is of class "{record.cls}"',
                    where=where,
                    detail=f'Attribute "{attribute.name}" refers to objects of class "{attribute.target}".',
                )

    def _referred(self, oid: int, target: str) -> DraftObject | None:
        """The record of an object expected in class ``target``; other classes are searched only if it is not there."""
        found = self.stored.find(oid, [target]) or self.stored.find(oid)
        return (
            None
            if found is None
            else self.records.setdefault(oid, DraftObject(oid, found.cls, found.values, dict(found.values)))
        )

    def _collection(self, oid: int, name: str) -> tuple[DraftObject, Attribute]:
        record = self.look(oid, having=[name])
        attributes = self.module.attributes[record.cls]
        attribute = attributes.get(name.lower())
        if attribute is None:
            raise _no_attribute(record.cls, name, attributes, _called(record))
        if attribute.collection is None:
            raise Unsupported(
                f'attribute "{attribute.name}" of class "{record.cls}" is no collection',
                where=_called(record),
                hint=f"Use modify(oid, {attribute.name}=...).",
            )
        return record, attribute

    def _assign(self, record: DraftObject, attribute: Attribute, value: Any) -> None:
        name = attribute.name
        before = record.values[name]
        self.explicit.add((record.oid, name, None))
        if attribute.inverse is None:
            record.values[name] = value
            self._note(record, attribute, value)
        elif attribute.collection is None:
            if before is not None and before != value:
                self.unlink(record, attribute, self.look(before))
            if value is not None and before != value:
                self.link(record, attribute, self.look(value))
        else:
            held: Counter[int] = Counter(before)
            wanted: Counter[int] = Counter(value)
            for other in (held - wanted).elements():
                self.unlink(record, attribute, self.look(other))
            for other in (wanted - held).elements():
                self.link(record, attribute, self.look(other))
            if attribute.collection is Collection.LIST and Counter(record.values[name]) == wanted:
                record.values[name] = value

    # -- relationships ------------------------------------------------------------------------------------------

    def link(self, one: DraftObject, attribute: Attribute, other: DraftObject) -> None:
        """Relate two objects, at both ends; an end that takes only one partner releases the former one."""
        back = self.inverse(attribute)
        once = Collection.SET in (attribute.collection, back.collection) or None in (
            attribute.collection,
            back.collection,
        )
        if once and self._holds(one, attribute, other.oid):
            return
        if attribute.collection is None and one.values[attribute.name] is not None:
            self.unlink(one, attribute, self.look(one.values[attribute.name]))
        if back.collection is None and other.values[back.name] is not None:
            self.unlink(self.look(other.values[back.name]), attribute, other)
        self._add(one, attribute, other.oid)
        if not (one is other and attribute is back):
            self._add(other, back, one.oid)

    def unlink(self, one: DraftObject, attribute: Attribute, other: DraftObject) -> None:
        """Remove one link between two objects, at both ends."""
        back = self.inverse(attribute)
        self._drop(one, attribute, other.oid)
        if not (one is other and attribute is back):
            self._drop(other, back, one.oid)

    def adopt(self, attribute: Attribute, one: int, other: DraftObject) -> None:
        """Add a new object, which is not in the draft, to the inverse of ``attribute`` of ``other``."""
        back = self.inverse(attribute)
        if back.collection is None and other.values[back.name] is not None:
            self.unlink(self.look(other.values[back.name]), attribute, other)
        self._add(other, back, one)

    def inverse(self, attribute: Attribute) -> Attribute:
        """The other end of a relationship."""
        assert attribute.target is not None and attribute.inverse is not None
        return self.module.attributes[attribute.target][attribute.inverse]

    def _holds(self, record: DraftObject, attribute: Attribute, oid: int) -> bool:
        held = record.values[attribute.name]
        return bool(held == oid if attribute.collection is None else has_element(attribute, held, oid))

    def _add(self, record: DraftObject, attribute: Attribute, element: Any) -> None:
        held = record.values[attribute.name]
        if attribute.collection is None:
            record.values[attribute.name] = element
        else:
            record.values[attribute.name] = with_element(attribute, held, element)

    def _drop(self, record: DraftObject, attribute: Attribute, element: Any) -> None:
        held = record.values[attribute.name]
        if attribute.collection is None:
            record.values[attribute.name] = None
        else:
            record.values[attribute.name] = without_element(attribute, held, element)


def _called(record: DraftObject) -> str:
    return f"{record.cls} {record.oid}"


def _why_gone(record: DraftObject | None) -> str | None:
    return "It was deleted in this epoch." if record is not None else None


def _no_attribute(cls: str, name: str, known: Iterable[str], where: str) -> UnknownName:
    return UnknownName(f'class "{cls}" has no attribute "{name}"', where=where, hint=f"Attributes: {', '.join(known)}.")
