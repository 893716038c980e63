"""What an OQL expression stands for: a value, a reference to an object, a collection or a record.

The types of columns do not tell a reference from a number, nor a bag from a list: kinds do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.classes import Attribute, Collection, Schema
from tidemill.model.types import BIGINT, Array, Field, Struct, Type


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """What an expression stands for; ``str()`` is what errors call it."""

    @property
    @abstractmethod
    def stored(self) -> Type:
        """The type of the column that would hold it."""


@dataclass(frozen=True, slots=True)
class Plain(Kind):
    """A value."""

    type: Type

    @property
    def stored(self) -> Type:
        return self.type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class Reference(Kind):
    """An object of a class, or nil."""

    of: str

    @property
    def stored(self) -> Type:
        return BIGINT

    def __str__(self) -> str:
        return f"an object of class {self.of}"


@dataclass(frozen=True, slots=True)
class Many(Kind):
    """A collection."""

    collection: Collection
    element: Kind

    @property
    def stored(self) -> Type:
        return Array(self.element.stored)

    def __str__(self) -> str:
        return f"a {self.collection.value} of {self.element}"


@dataclass(frozen=True, slots=True)
class Structure(Kind):
    """A record; the names of its members are in lower case."""

    members: tuple[tuple[str, Kind], ...]

    @property
    def stored(self) -> Type:
        return Struct(tuple(Field(name, kind.stored) for name, kind in self.members))

    @property
    def by_name(self) -> Mapping[str, Kind]:
        """The members by name."""
        return dict(self.members)

    def __str__(self) -> str:
        return "a struct"


def kind_of_attribute(attribute: Attribute) -> Kind:
    """What a property of a class stands for."""
    element: Kind = Plain(attribute.type) if attribute.target is None else Reference(attribute.target)
    return element if attribute.collection is None else Many(attribute.collection, element)


def kind_of_type(of: Type) -> Kind:
    """What a column of a view stands for: in views, references are plain numbers."""
    match of:
        case Array(element):
            return Many(Collection.BAG, kind_of_type(element))
        case Struct(fields):
            return Structure(tuple((f.name.lower(), kind_of_type(f.type)) for f in fields))
    return Plain(of)


def members_of(kind: Kind, schema: Schema) -> Mapping[str, Kind]:
    """What may follow a dot: the attributes of an object, or the members of a record."""
    match kind:
        case Reference(of):
            return {name: kind_of_attribute(attribute) for name, attribute in schema.attributes(of).items()}
        case Structure():
            return kind.by_name
    return {}
