"""Classes from nested structs, and back: what lies inside of what becomes objects that refer to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemill.model.classes import OID, Attribute, Collection, ObjectClass, ObjectSchema
from tidemill.model.errors import NameTaken, Unsupported
from tidemill.model.types import BIGINT, Array, Field, Struct, Type

__all__ = ["from_struct", "nested_struct"]

NO_KEYS: Mapping[str, Sequence[str]] = {}


def from_struct(name: str, structs: Mapping[str, Struct], keys: Mapping[str, Sequence[str]] = NO_KEYS) -> ObjectSchema:
    """A module of classes for structs, each by the name of its class: of tables, of frames, of nested files.

    A field of type STRUCT becomes an attribute that refers to an object of a class of its own, called as the field; an
    ARRAY of structs a list of such objects, whose class is called so without an s at the end, and an ARRAY of values a
    list of values. The extent of a class is its name with an s. ``keys`` has for classes the attributes of their key. A
    column ``oid`` is what every object has.

    >>> from tidemill.model.types import STRING
    >>> line = Struct((Field("item", STRING), Field("pieces", BIGINT)))
    >>> schema = from_struct("shop", {"order": Struct((Field("id", BIGINT), Field("lines", Array(line))))}, {
    ...     "order": ["id"]})
    >>> [str(schema.table(found).fields[-1]) for found in schema.classes]
    ['pieces: BIGINT', 'lines: ARRAY<BIGINT>']
    """
    found: dict[str, ObjectClass] = {}
    for class_name, struct in structs.items():
        for made in _classes(class_name.lower(), struct):
            if found.setdefault(made.name, made) != made:
                raise NameTaken(
                    f'two different structs would both be class "{made.name}"',
                    where=class_name,
                    hint="Rename one of the fields.",
                )
    unique = {key.lower(): (tuple(attribute.lower() for attribute in names),) for key, names in keys.items()}
    classes = {
        made.name: ObjectClass(
            made.name, made.attributes, None, f"{made.name}s", unique.get(made.name, ()), module=name.lower()
        )
        for made in found.values()
    }
    return ObjectSchema(name.lower(), classes)


def _classes(name: str, struct: Struct) -> Iterator[ObjectClass]:
    """The classes of what lies within, and then the class of the struct itself."""
    for field in struct.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from _classes(_class_of(field), inner)
    yield ObjectClass(name, tuple(_attribute(field) for field in struct.fields if field.name.lower() != OID))


def _attribute(field: Field) -> Attribute:
    name = field.name.lower()
    if not isinstance(field.type, Array):
        return Attribute(name, *_of(field, field.type))
    if isinstance(field.type.element, Array):
        raise Unsupported(
            f'column "{name}" is an array of arrays',
            detail="A collection of collections is not kept.",
            hint="Let the inner array be a field of a struct.",
        )
    return Attribute(name, *_of(field, field.type.element), Collection.LIST)


def _of(field: Field, type_: Type) -> tuple[Type, str | None]:
    return (BIGINT, _class_of(field)) if isinstance(type_, Struct) else (type_, None)


def _class_of(field: Field) -> str:
    name = field.name.lower()
    return name[:-1] if isinstance(field.type, Array) and name.endswith("s") and len(name) > 1 else name


def nested_struct(schema: ObjectSchema, name: str) -> Struct:
    """An object of a class as nested files have it: with other objects in the place of plain references to them.

    Relationships stay references. A class from whose objects plain references lead back to it has no such form.
    """
    return _nested(schema, name, ())


def _nested(schema: ObjectSchema, name: str, around: tuple[str, ...]) -> Struct:
    if name in around:
        raise Unsupported(
            f'objects of class "{name}" cannot be nested',
            detail=f"Plain references lead from {' to '.join((*around, name))}.",
            hint="Use schema.struct(), in which they are the oids of objects, or make one of them a relationship.",
        )
    fields = [Field(OID, BIGINT, nullable=False)]
    for attribute in schema.attributes(name).values():
        kind = attribute.type
        if attribute.target is not None and attribute.inverse is None:
            kind = _nested(schema, attribute.target, (*around, name))
        many = attribute.collection is not None
        fields.append(Field(attribute.name, Array(kind) if many else kind, not many))
    return Struct(tuple(fields))
