"""A plain object database to compare with: relationships are pairs, and everything is searched each time."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from tidemill.model.array_tree import ArrayTree
from tidemill.model.classes import Attribute, Collection, ObjectSchema
from tidemill.model.types import STRING, Struct
from tidemill.model.update_events import UpdateEvent


def rank(value: Any) -> Any:
    """What sorts as the values of collections do: a member of a struct that is NULL comes first."""
    if isinstance(value, tuple | ArrayTree):
        return tuple((0,) if one is None else (1, rank(one)) for one in value)
    return value


class Refused(Exception):
    pass


class Model:
    """Objects with their plain attributes, and for each relationship the pairs that it has, as often as it has them."""

    def __init__(self, schema: ObjectSchema) -> None:
        self.schema = schema
        self.objects: dict[int, tuple[str, dict[str, Any]]] = {}
        self.pairs: dict[str, list[tuple[int, int]]] = {}
        self.stored = [name for name in schema.classes if schema.is_stored(name)]

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def is_a(self, oid: int, cls: str) -> bool:
        return oid in self.objects and any(c.name == cls for c in self.schema.line(self.objects[oid][0]))

    def oids(self, cls: str) -> list[int]:
        return [oid for oid in self.objects if self.is_a(oid, cls)]

    # -- relationships --------------------------------------------------------------------------------------------

    def ends(self, attribute: Attribute) -> tuple[str, bool, Attribute]:
        """The name of a relationship, whether it is seen from its second end, and the other end."""
        back = self.schema.attributes(attribute.target)[attribute.inverse]
        here = f"{back.target}.{attribute.name}"
        there = f"{attribute.target}.{back.name}"
        return min(here, there), there < here, back

    def partners(self, oid: int, attribute: Attribute) -> list[int]:
        name, swapped, back = self.ends(attribute)
        pairs = self.pairs.get(name, [])
        if attribute == back:
            return [b if a == oid else a for a, b in pairs if oid in (a, b)]
        return [a if swapped else b for a, b in pairs if (b if swapped else a) == oid]

    def link(self, oid: int, attribute: Attribute, other: int) -> None:
        name, swapped, back = self.ends(attribute)
        kinds = (attribute.collection, back.collection)
        if (None in kinds or Collection.SET in kinds) and other in self.partners(oid, attribute):
            return
        if attribute.collection is None:
            for former in self.partners(oid, attribute):
                self.unlink(oid, attribute, former)
        if back.collection is None:
            for former in self.partners(other, back):
                self.unlink(other, back, former)
        self.pairs.setdefault(name, []).append((other, oid) if swapped else (oid, other))

    def unlink(self, oid: int, attribute: Attribute, other: int) -> None:
        name, swapped, back = self.ends(attribute)
        pair = (other, oid) if swapped else (oid, other)
        self.pairs[name].remove(pair if pair in self.pairs[name] or attribute != back else pair[::-1])

    # -- operations -----------------------------------------------------------------------------------------------

    def require(self, attribute: Attribute, values: list[Any]) -> None:
        if attribute.target is not None and not all(self.is_a(oid, attribute.target) for oid in values):
            raise Refused
        if attribute.among and not set(values) <= set(attribute.among):
            raise Refused
        if attribute.type != STRING and any(isinstance(value, str) for value in values):
            raise Refused
        for place, member in enumerate(attribute.type.fields if isinstance(attribute.type, Struct) else ()):
            known = [value[place] for value in values if isinstance(value, tuple) and value[place] is not None]
            self.require(Attribute(member.name, member.type), known)

    def create(self, oid: int, cls: str, given: dict[str, Any]) -> None:
        self.check(cls, given)
        empty = {n: None if a.collection is None else [] for n, a in self.schema.attributes(cls).items()}
        self.objects[oid] = cls, {n: v for n, v in empty.items() if self.schema.attributes(cls)[n].inverse is None}
        self.assign(oid, given)

    def modify(self, oid: int, given: dict[str, Any]) -> None:
        self.check(self.objects[oid][0], given)
        self.assign(oid, given)

    def check(self, cls: str, given: dict[str, Any]) -> None:
        for name, value in given.items():
            attribute = self.schema.attributes(cls)[name]
            if value is not None:
                self.require(attribute, [value] if attribute.collection is None else value)

    def assign(self, oid: int, given: dict[str, Any]) -> None:
        cls, values = self.objects[oid]
        for name, value in given.items():
            attribute = self.schema.attributes(cls)[name]
            if attribute.inverse is None:
                values[name] = value
                continue
            wanted = Counter([value] if attribute.collection is None and value is not None else value or [])
            held = Counter(self.partners(oid, attribute))
            for other in (held - wanted).elements():
                self.unlink(oid, attribute, other)
            for other in (wanted - held).elements():
                self.link(oid, attribute, other)

    def insert(self, oid: int, name: str, element: Any) -> None:
        cls, values = self.objects[oid]
        attribute = self.schema.attributes(cls)[name]
        self.require(attribute, [element])
        if attribute.inverse is not None:
            self.link(oid, attribute, element)
        else:
            values[name] = [*values[name], element]

    def remove(self, oid: int, name: str, element: Any) -> None:
        if element not in self.value(oid, name):
            raise Refused
        cls, values = self.objects[oid]
        attribute = self.schema.attributes(cls)[name]
        if attribute.inverse is not None:
            self.unlink(oid, attribute, element)
        else:
            values[name] = list(values[name])
            values[name].remove(element)

    def delete(self, oid: int, clear: bool) -> None:
        cls, _ = self.objects[oid]
        for attribute in self.schema.attributes(cls).values():
            if attribute.inverse is not None:
                for other in self.partners(oid, attribute):
                    self.unlink(oid, attribute, other)
        del self.objects[oid]
        if clear:
            for _, values, attribute in self.plain():
                held = values[attribute.name]
                if attribute.collection is not None:
                    values[attribute.name] = [e for e in held if e != oid]
                elif held == oid:
                    values[attribute.name] = None

    # -- what it is like ------------------------------------------------------------------------------------------

    def plain(self) -> list[tuple[int, dict[str, Any], Attribute]]:
        return [
            (oid, values, attribute)
            for oid, (cls, values) in self.objects.items()
            for attribute in self.schema.attributes(cls).values()
            if attribute.target is not None and attribute.inverse is None
        ]

    def is_right(self) -> bool:
        """Whether all plain references lead somewhere, and keys are unique."""
        for _, values, attribute in self.plain():
            held = values[attribute.name]
            if any(e not in self.objects for e in ([held] if attribute.collection is None else held) if e is not None):
                return False
        for cls in self.schema.classes.values():
            for key in cls.keys:
                found = [tuple(self.value(oid, name) for name in key) for oid in self.oids(cls.name)]
                found = [value for value in found if None not in value]
                if len(set(found)) < len(found):
                    return False
        return True

    def value(self, oid: int, name: str) -> Any:
        cls, values = self.objects[oid]
        attribute = self.schema.attributes(cls)[name]
        if attribute.inverse is not None:
            found = sorted(self.partners(oid, attribute))
            return found if attribute.collection is not None else next(iter(found), None)
        value = values[name]
        if attribute.collection is Collection.BAG:
            return sorted(value, key=rank)
        return sorted(set(value), key=rank) if attribute.collection is Collection.SET else value

    def rows(self, cls: str) -> list[tuple[Any, ...]]:
        """The rows of the table of a class; a list of partners in no order."""
        names = self.schema.attributes(cls)
        return sorted((oid, *[self.value(oid, name) for name in names]) for oid in self.oids(cls))

    def events(self, before: Model) -> Counter[tuple[UpdateEvent, str, int, Any]]:
        """What happened since: of which kind and where, to which object, with which element."""
        found: Counter[tuple[UpdateEvent, str, int, Any]] = Counter()
        for cls in self.stored:
            table, old, new = self.schema.table_name(cls), set(before.oids(cls)), set(self.oids(cls))
            found.update((UpdateEvent.INSERT, table, oid, None) for oid in new - old)
            found.update((UpdateEvent.DELETE, table, oid, None) for oid in old - new)
            for oid in old & new:
                for name, attribute in self.schema.attributes(cls).items():
                    found.update(self.modified(before, cls, oid, name, attribute))
        return found

    def modified(
        self, before: Model, cls: str, oid: int, name: str, attribute: Attribute
    ) -> list[tuple[UpdateEvent, str, int, Any]]:
        old, new = before.value(oid, name), self.value(oid, name)
        if old == new:
            return []
        if attribute.collection is not None and Counter(old) != Counter(new):
            gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
            return [(UpdateEvent.DELETE_ELEMENT, f"{cls}.{name}", oid, e) for e in gone.elements()] + [
                (UpdateEvent.INSERT_ELEMENT, f"{cls}.{name}", oid, e) for e in come.elements()
            ]
        events: list[tuple[UpdateEvent, str, int, Any]] = [(UpdateEvent.MODIFY, f"{cls}.{name}", oid, None)]
        for owner in self.stored if cls == self.objects[oid][0] else ():
            for held in self.schema.attributes(owner).values():
                within = held.collection is not None and held.target is not None and self.is_a(oid, held.target)
                if within and name in self.schema.attributes(held.target):
                    place = f"{owner}.{held.name}({held.target}.{name})"
                    events += [
                        (UpdateEvent.MODIFY_ELEMENT, place, holder, oid)
                        for holder in self.oids(owner)
                        if oid in self.value(holder, held.name)
                    ]
        return events
