"""Classes of objects as ODL declares them, and the tables that hold their objects.

An object is a row: its identity is the column ``oid``, a reference is the ``oid`` of another object, and a collection
is an array. An object is stored in the table of its class and in that of every superclass, with the columns declared
there, so that an extent has the objects of all subclasses and is still one table. Names are lower case internally.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from tidemill.model.schema import ReferentialConstraint, Table
from tidemill.model.types import BIGINT, Array, Field, Struct, Type

OID = "oid"
"""The column of an object's identity."""


class Collection(Enum):
    """The kinds of collections: a bag keeps multiplicities, a set only membership, a list also positions.

    The arrays of bags and sets are sorted, so that equal collections are equal arrays; those of lists are in order.
    """

    BAG = "bag"
    SET = "set"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property of a class: a value, a reference to an object of class ``target``, or a ``collection`` of either.

    ``type`` is that of the value or of an element; a reference has the type of an ``oid``. A relationship names its
    ``inverse``, the attribute of the target that points back. ``among`` are the names that an enum allows.
    """

    name: str
    type: Type
    target: str | None = None
    collection: Collection | None = None
    inverse: str | None = None
    among: tuple[str, ...] = ()

    @property
    def field(self) -> Field:
        """The column that holds it. A collection is never NULL, but may be empty."""
        return Field(self.name, self.type if self.collection is None else Array(self.type), self.collection is None)


@dataclass(frozen=True, slots=True)
class ObjectClass:
    """A class: its own attributes, the class that it extends, the name of its extent, and the keys of its objects.

    An interface has no objects of its own: those of the classes with it among their ``interfaces`` are of it. To OQL a
    view whose rows have identities is a class, too; ``identity`` is their type.
    """

    name: str
    attributes: tuple[Attribute, ...]
    parent: str | None = None
    extent: str | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    interfaces: tuple[str, ...] = ()
    is_interface: bool = False
    module: str = ""
    identity: Type = BIGINT

    @property
    def above(self) -> tuple[str, ...]:
        """The class that it extends, and its interfaces."""
        return self.interfaces if self.parent is None else (self.parent, *self.interfaces)


@dataclass(frozen=True, slots=True)
class Constant:
    """A named value of a module."""

    type: Type
    value: Any
    module: str = ""


@dataclass(frozen=True)
class ObjectSchema:
    """The classes of one or several modules, by name; those above others come before them.

    ``name`` names the modules. A class has one name in all of them.
    """

    name: str
    classes: Mapping[str, ObjectClass]
    constants: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of the modules."""
        return tuple(self.name.split(", "))

    def line(self, name: str) -> Iterator[ObjectClass]:
        """The class and those above it, each before those above itself."""
        return iter(self._lines[name])

    @cached_property
    def _lines(self) -> dict[str, tuple[ObjectClass, ...]]:
        lines: dict[str, tuple[ObjectClass, ...]] = {}
        for name, found in self.classes.items():
            line: list[ObjectClass] = []
            for parent in found.above:  # what is above two of them comes after both
                line = [*(one for one in line if one not in lines[parent]), *lines[parent]]
            lines[name] = (found, *line)
        return lines

    def with_classes(self, classes: Mapping[str, ObjectClass]) -> ObjectSchema:
        """The schema with further classes, such as those of views."""
        return replace(self, classes={**self.classes, **classes}) if classes else self

    def may_be_both(self, one: str, other: str) -> bool:
        """True if an object may be of both classes."""
        for line in self._lines.values():
            names = {above.name for above in line}
            if one in names and other in names:
                return True
        return False

    def below(self, name: str) -> Iterator[ObjectClass]:
        """The class and all that extend it."""
        return (found for found in self.classes.values() if any(above.name == name for above in self.line(found.name)))

    def attributes(self, name: str) -> dict[str, Attribute]:
        """All attributes of a class by name, inherited ones first."""
        lines = reversed(list(self.line(name)))
        return {attribute.name: attribute for above in lines for attribute in above.attributes}

    def declares(self, name: str, attribute: str) -> str:
        """The class in which an attribute of class ``name`` is declared."""
        return next(above.name for above in self.line(name) if any(a.name == attribute for a in above.attributes))

    def extents(self) -> dict[str, ObjectClass]:
        """The classes by the names of their extents."""
        return {found.extent: found for found in self.classes.values() if found.extent is not None}

    def is_stored(self, name: str) -> bool:
        """True if a class has a table: it has an extent, or some attribute refers to its objects."""
        referred = {a.target for found in self.classes.values() for a in found.attributes}
        return self.classes[name].extent is not None or name in referred

    def table(self, name: str) -> Table:
        """The table of a class, named after its extent, or after the class itself if it has none."""
        attributes = self.attributes(name).values()
        references = (
            # References between objects are checked by the object layer, in every epoch.
            ReferentialConstraint((a.name,), self.table_name(a.target), (OID,), enforced=False)
            for a in attributes
            if a.target is not None and a.collection is None
        )
        fields = (Field(OID, self.classes[name].identity, nullable=False), *(a.field for a in attributes))
        return Table(self.table_name(name), fields, (OID,), tuple(references))

    def struct(self, name: str) -> Struct:
        """An object of a class as a struct of Spark: the columns of its table."""
        return Struct(self.table(name).fields)

    def table_name(self, name: str) -> str:
        """The name of the table of a class."""
        return self.classes[name].extent or name
