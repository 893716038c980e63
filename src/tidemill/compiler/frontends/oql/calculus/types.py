"""Types of OQL expressions: a value, a reference to an object, a collection or a record.

Unlike the types of columns, these distinguish a reference from a number, and a bag from a list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.classes import Attribute, Collection, ObjectClass, ObjectSchema
from tidemill.model.types import BIGINT, STRING, Array, Field, Struct, Type


@dataclass(frozen=True, slots=True)
class OqlType(ABC):
    """The type of an expression; ``str()`` is its name in errors."""

    @property
    @abstractmethod
    def stored(self) -> Type:
        """The type of the column that would hold it."""


@dataclass(frozen=True, slots=True)
class ValueType(OqlType):
    """A value."""

    type: Type

    @property
    def stored(self) -> Type:
        return self.type

    def __str__(self) -> str:
        return str(self.type)


@dataclass(frozen=True, slots=True)
class ReferenceType(OqlType):
    """An object of a class, or a row of a view with identities; or nil."""

    of: str
    identity: Type = BIGINT

    @property
    def stored(self) -> Type:
        return self.identity

    def __str__(self) -> str:
        return f"an object of class {self.of}"


@dataclass(frozen=True, slots=True)
class CollectionType(OqlType):
    """A collection."""

    collection: Collection
    element: OqlType

    @property
    def stored(self) -> Type:
        return Array(self.element.stored)

    def __str__(self) -> str:
        return f"a {self.collection.value} of {self.element}"


@dataclass(frozen=True, slots=True)
class RecordType(OqlType):
    """A record; the names of its members are in lower case."""

    members: tuple[tuple[str, OqlType], ...]

    @property
    def stored(self) -> Type:
        return Struct(tuple(Field(name, oql_type.stored) for name, oql_type in self.members))

    @property
    def by_name(self) -> Mapping[str, OqlType]:
        """The members by name."""
        return dict(self.members)

    def __str__(self) -> str:
        return "a struct"


def attribute_type(attribute: Attribute) -> OqlType:
    """The type of a property of a class."""
    element: OqlType = (
        column_type(attribute.type) if attribute.target is None else ReferenceType(attribute.target, attribute.type)
    )
    return element if attribute.collection is None else CollectionType(attribute.collection, element)


def column_type(of: Type) -> OqlType:
    """The type of a column of a view: in views, references are plain numbers."""
    match of:
        case Array(element):
            return CollectionType(Collection.BAG, column_type(element))
        case Struct(fields):
            return RecordType(tuple((f.name.lower(), column_type(f.type)) for f in fields))
    return ValueType(of)


def instance_class(name: str, members: Mapping[str, OqlType]) -> ObjectClass:
    """The class that a view with identities is to OQL."""
    attributes = (_attribute(member, oql_type) for member, oql_type in members.items())
    return ObjectClass(name, tuple(attributes), extent=name, identity=STRING)


def _attribute(name: str, oql_type: OqlType) -> Attribute:
    collection = oql_type.collection if isinstance(oql_type, CollectionType) else None
    one = oql_type.element if isinstance(oql_type, CollectionType) else oql_type
    target = one.of if isinstance(one, ReferenceType) else None
    return Attribute(name, one.stored, target, collection)


def member_types(oql_type: OqlType, schema: ObjectSchema) -> Mapping[str, OqlType]:
    """The names that may follow a dot: the attributes of an object, or the members of a record."""
    match oql_type:
        case ReferenceType(of):
            return {name: attribute_type(attribute) for name, attribute in schema.attributes(of).items()}
        case RecordType():
            return oql_type.by_name
    return {}
