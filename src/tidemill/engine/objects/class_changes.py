"""Classes declared anew: what follows for the tables of objects that are there, and what does not fit them.

An object has every attribute of its class in the tables of that class and of those above it. So each stored class is a
table that is altered: attributes come with one value for all objects, and go; values get a wider type. Stored rows stay
as they are, as after ALTER TABLE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.changes.alterations import Alteration
from tidemill.engine.catalog.altered.columns import is_wider
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.object_module import ObjectModule
from tidemill.engine.objects.attribute_values import attribute_value
from tidemill.model.classes import Attribute
from tidemill.model.errors import NameTaken, UnknownName, Unsupported
from tidemill.model.schema import Table, UniqueConstraint

__all__ = ["ClassChange", "class_change"]


@dataclass(frozen=True)
class ClassChange:
    """The tables of objects that are altered, and those that are new, when classes are declared anew."""

    module: ObjectModule
    altered: tuple[AlteredTable, ...]
    created: tuple[Table, ...]

    def apply(self, catalog: Catalog) -> None:
        """Put the classes into a catalog whose tables are altered."""
        for table in self.created:
            if table.name not in catalog:  # the trial of an alteration is tried with it, too
                catalog.add(table)
        catalog.module = self.module


def class_change(catalog: Catalog, old: ObjectModule, new: ObjectModule, given: Mapping[str, Any]) -> ClassChange:
    """The change from the classes of a warehouse to others; ``given`` has values of new attributes, by their names as
    ``class.attribute``, for the objects that are there."""
    _require_same_classes(old, new)
    values = {name.lower(): value for name, value in given.items()}
    known = {f"{cls.name}.{a.name}" for cls in new.schema.classes.values() for a in cls.attributes}
    before = {f"{cls.name}.{a.name}" for cls in old.schema.classes.values() for a in cls.attributes}
    for name in values.keys() - (known - before):
        new_ones = ", ".join(sorted(known - before)) or "none"
        raise UnknownName(f'there is no new attribute "{name}"', hint=f"New attributes: {new_ones}.")
    altered = [_altered(catalog, old, new, cls, values) for cls in old.stored]
    created = tuple(table for cls, table in new.stored.items() if cls not in old.stored)
    for table in created:
        if table.name in catalog or table.name in catalog.named.queries:
            raise NameTaken(f'"{table.name}" exists already', hint="Drop it first, or give the extent another name.")
    return ClassChange(new, tuple(one for one in altered if one is not None), created)


def _require_same_classes(old: ObjectModule, new: ObjectModule) -> None:
    """Refuse classes that are gone, or of which other objects would be."""
    for name, was in old.schema.classes.items():
        now = new.schema.classes.get(name)
        if now is None:
            raise _refused(name, "is not declared any more", "Objects of it may be there.", "Declare it as it was.")
        if was.parent != now.parent:
            raise _refused(name, "extends another class", "Its objects are in the tables of those above it.")
        if old.schema.is_stored(name) and old.schema.table_name(name) != new.schema.table_name(name):
            raise _refused(name, "has another extent", "Its objects are in a table of that name.")
        if old.schema.is_stored(name) != new.schema.is_stored(name):
            reason = "A class is stored that has an extent, or that some attribute refers to."
            if name in old.stored or any(below.name in old.stored for below in old.schema.below(name)):
                raise _refused(name, "would be stored in other tables", reason)


def _altered(
    catalog: Catalog, old: ObjectModule, new: ObjectModule, cls: str, values: Mapping[str, Any]
) -> AlteredTable | None:
    """The table of a stored class with its new attributes; None if it stays as it is."""
    before, table = catalog.table(old.stored[cls].name), new.stored[cls]
    were, are = old.attributes[cls], new.attributes[cls]
    gone = tuple(name for name in were if name not in are)
    wider = [step for name in were if name in are and (step := _step(cls, were[name], are[name])) is not None]
    added = [_added(new, cls, attribute, values) for name, attribute in are.items() if name not in were]
    steps = (*(Alteration("drop", name) for name in gone), *wider, *added)
    unique = tuple(_new_keys(old, new, cls))
    if table == before and not steps and not unique:
        return None
    return AlteredTable(before, table, steps, dropped=gone, constraints=unique)


def _step(cls: str, was: Attribute, now: Attribute) -> Alteration | None:
    """What is done to the column of an attribute that stays; most often nothing."""
    same = (was.target, was.collection, was.inverse) == (now.target, now.collection, now.inverse)
    if not same or (was.collection is not None and was.type != now.type) or not is_wider(was.field, now.field):
        raise _refused(cls, f'has another attribute "{now.name}"', "Values that are there are not of that kind.")
    if not {*was.among} <= {*now.among} or (now.among and not was.among):
        raise _refused(cls, f'has fewer names for "{now.name}"', "Objects may have those that are gone.")
    return Alteration.widen(now.field) if was.type != now.type else None


def _added(new: ObjectModule, cls: str, attribute: Attribute, values: Mapping[str, Any]) -> Alteration:
    place = f"{new.schema.declares(cls, attribute.name)}.{attribute.name}"
    if attribute.target is not None and values.get(place) is not None:
        raise Unsupported(
            f'"{place}" refers to objects, and has no value for those that are there',
            hint="Leave it out, and modify() them: both ends of relationships are kept so.",
        )
    return Alteration.add(attribute.field, attribute_value(attribute, values.get(place), place))


def _new_keys(old: ObjectModule, new: ObjectModule, cls: str) -> Iterator[UniqueConstraint]:
    """The keys of a class that it did not have, which its objects may violate."""
    for key in new.schema.classes[cls].keys:
        if key not in old.schema.classes[cls].keys and all(name in old.attributes[cls] for name in key):
            yield UniqueConstraint(key, f"key {', '.join(key)}")
        elif key not in old.schema.classes[cls].keys:
            raise _refused(cls, f"has the key ({', '.join(key)})", "Objects that are there would be equal in it.")


def _refused(
    cls: str, what: str, why: str, hint: str = "Declare it as it was, or create a class beside it."
) -> Unsupported:
    return Unsupported(f'class "{cls}" {what}', detail=why, hint=hint)
