"""Classes declared anew: what follows for the tables of objects that are there, and what does not fit them.

An object has every attribute of its class in the tables of that class and of those above it. So each stored class is a
table that is altered: attributes come with one value for all objects, and go; values get a wider type. Stored rows stay
as they are, as after ALTER TABLE. Classes without objects may go, have another extent, and have others above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    """The tables of objects that are altered, new and gone, when classes are declared anew."""

    module: ObjectModule
    altered: tuple[AlteredTable, ...]
    created: tuple[Table, ...]
    removed: tuple[str, ...]

    def apply(self, catalog: Catalog) -> None:
        """Put the classes into a catalog whose tables are altered."""
        catalog.module = self.module
        for name in self.removed:
            if name in catalog:  # the trial of an alteration is tried with it, too
                catalog.drop(name)
        for table in self.created:
            if table.name not in catalog:
                catalog.add(table)


def class_change(
    catalog: Catalog, old: ObjectModule, new: ObjectModule, given: Mapping[str, Any], is_empty: Callable[[str], bool]
) -> ClassChange:
    """The change from the classes of a warehouse to others; ``given`` has values of new attributes, by their names as
    ``class.attribute``, for the objects that are there. ``is_empty`` is true for a class without any."""
    _require_same_tables(old, new, is_empty)
    removed = tuple(table.name for cls, table in old.stored.items() if _table_name(new, cls) != table.name)
    for name in removed:
        catalog.require_unread(name)
    values = {name.lower(): value for name, value in given.items()}
    known = {f"{cls.name}.{a.name}" for cls in new.schema.classes.values() for a in cls.attributes}
    before = {f"{cls.name}.{a.name}" for cls in old.schema.classes.values() for a in cls.attributes}
    for name in values.keys() - (known - before):
        new_ones = ", ".join(sorted(known - before)) or "none"
        raise UnknownName(f'there is no new attribute "{name}"', hint=f"New attributes: {new_ones}.")
    staying = [cls for cls in old.stored if old.stored[cls].name not in removed]
    altered = [_altered(catalog, old, new, cls, values, is_empty) for cls in staying]
    created = tuple(table for cls, table in new.stored.items() if cls not in staying)
    for table in created:
        if table.name in catalog or table.name in catalog.named.queries:
            raise NameTaken(f'"{table.name}" exists already', hint="Drop it first, or give the extent another name.")
    return ClassChange(new, tuple(one for one in altered if one is not None), created, removed)


def _require_same_tables(old: ObjectModule, new: ObjectModule, is_empty: Callable[[str], bool]) -> None:
    """Refuse other tables for objects that are there."""
    for cls, table in old.stored.items():
        if is_empty(cls):
            continue
        if cls not in new.schema.classes:
            raise _refused(cls, "is not declared any more", "It has objects.", "Delete its objects first.")
        if _table_name(new, cls) not in (table.name, None):
            raise _refused(cls, "has another extent", "Its objects are in a table of that name.")
        if old.schema.classes[cls].parent != new.schema.classes[cls].parent:
            raise _refused(cls, "extends another class", "Its objects are in the tables of those above it.")
        if _line_of_tables(old, cls) != _line_of_tables(new, cls):
            reason = "Its objects are in the tables of all classes above it that have an extent, or are referred to."
            raise _refused(cls, "would be stored in other tables", reason)


def _table_name(module: ObjectModule, cls: str) -> str | None:
    return module.stored[cls].name if cls in module.stored else None


def _line_of_tables(module: ObjectModule, cls: str) -> set[str]:
    return {module.stored[above].name for above in module.lines[cls]}


def _altered(
    catalog: Catalog,
    old: ObjectModule,
    new: ObjectModule,
    cls: str,
    values: Mapping[str, Any],
    is_empty: Callable[[str], bool],
) -> AlteredTable | None:
    """The table of a stored class with its new attributes; None if it stays as it is."""
    before, table = catalog.table(old.stored[cls].name), new.stored[cls]
    were, are = old.attributes[cls], new.attributes[cls]
    gone = tuple(name for name in were if name not in are)
    wider = [step for name in were if name in are and (step := _step(cls, were[name], are[name])) is not None]
    added = [_added(new, cls, attribute, values) for name, attribute in are.items() if name not in were]
    steps = (*(Alteration("drop", name) for name in gone), *wider, *added)
    unique = () if is_empty(cls) else tuple(_new_keys(old, new, cls, values))
    if table == before and not steps and not unique:
        return None
    return AlteredTable(before, table, steps, dropped=gone, constraints=unique)


def _step(cls: str, was: Attribute, now: Attribute) -> Alteration | None:
    """Alteration of the column of an attribute that stays; most often none."""
    # A relationship without its other end is a plain reference, and refers to what it did.
    same = (was.target, was.collection) == (now.target, now.collection) and now.inverse in (was.inverse, None)
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


def _new_keys(old: ObjectModule, new: ObjectModule, cls: str, values: Mapping[str, Any]) -> Iterator[UniqueConstraint]:
    """The keys of a class that it did not have, which its objects may violate. Keys with NULL are not compared."""
    for key in new.schema.classes[cls].keys:
        added = [name for name in key if name not in old.attributes[cls]]
        if key in old.schema.classes[cls].keys:
            continue
        if not added:
            yield UniqueConstraint(key, f"key {', '.join(key)}")
        elif all(values.get(f"{new.schema.declares(cls, name)}.{name}") is not None for name in added):
            raise _refused(cls, f"has the key ({', '.join(key)})", "Objects that are there would be equal in it.")


def _refused(
    cls: str, what: str, why: str, hint: str = "Declare it as it was, or create a class beside it."
) -> Unsupported:
    return Unsupported(f'class "{cls}" {what}', detail=why, hint=hint)
