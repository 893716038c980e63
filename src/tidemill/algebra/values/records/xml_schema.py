"""The type of an XML text, as SCHEMA_OF_XML finds it: members in order of their names, arrays where names repeat."""

from __future__ import annotations

import re

from tidemill.algebra.values import formats
from tidemill.algebra.values.documents.json_schema import compatible_type, schema_sql
from tidemill.algebra.values.documents.options import flag, read_options
from tidemill.algebra.values.documents.xml_nodes import XmlNode, read_xml
from tidemill.algebra.values.records.json_values import CORRUPT
from tidemill.algebra.values.records.xml_values import PREFIX, REFUSED_OPTIONS, TEXT
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import Field, Type
from tidemill.model.whole_numbers import whole_number

_REFUSED = (
    *(name for name in REFUSED_OPTIONS if name != "excludeattribute"),
    *("nullvalue", "inferschema", "prefersdecimal", "prefersdate", "dateformat", "timestampformat"),
)
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"T?[0-9]{1,2}:.*")
_WHOLE_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?")


def schema_of_xml(text: str, *options: str) -> str:
    """The type of an XML text, as DDL.

    >>> schema_of_xml('<p><a x="2">1</a><a>3.5</a><b/></p>')
    'STRUCT<a: ARRAY<STRUCT<_VALUE: DOUBLE, _x: BIGINT>>, b: STRING>'
    """
    attributes = not flag(read_options(options, _REFUSED), "excludeAttribute", False)
    document = read_xml(text, lenient=True)
    root = next((node for node in document.children if node.kind == "element"), None) if document else None
    if root is None:
        return schema_sql(t.Struct((Field(CORRUPT, t.STRING),)))
    return schema_sql(_known(_struct(root, attributes)))


def _struct(node: XmlNode, attributes: bool) -> t.Struct:
    """The type of an element with its members; those of one name, in any case, are an array."""
    found: dict[str, tuple[str, list[Type]]] = {}
    for name, of in _members(node, attributes):
        found.setdefault(name.lower(), (name, []))[1].append(of)
    fields = [Field(name, types[0] if len(types) == 1 else _array(types)) for name, types in found.values()]
    return t.Struct(tuple(sorted(fields, key=lambda field: field.name.encode("utf-16-be"))))


def _members(node: XmlNode, attributes: bool) -> list[tuple[str, Type]]:
    own = [(PREFIX + one.name, _scalar(one.value)) for one in node.attributes] if attributes else []
    elements = [(child.name, _type_of(child, attributes)) for child in node.children if child.kind == "element"]
    words = [child.value for child in node.children if child.kind == "text" and child.value.strip()]
    if len(words) > 1:
        raise Unsupported("the type of an element with several texts", hint="Write the schema out.")
    return [*own, *elements, *((TEXT, _scalar(word)) for word in words)]


def _type_of(node: XmlNode, attributes: bool) -> Type:
    """The type of an element: without attributes and other elements that of its text."""
    if (attributes and node.attributes) or any(child.kind == "element" for child in node.children):
        return _struct(node, attributes)
    return _scalar(node.text)


def _array(types: list[Type]) -> t.Array:
    element: Type = t.VOID
    for of in types:
        element = _wider(element, of)
    return t.Array(element)


def _wider(left: Type, right: Type) -> Type:
    """The type of both; a text beside attributes and one without any are of the same kind."""
    match left, right:
        case (t.Struct() as struct, of) | (of, t.Struct() as struct) if not isinstance(of, t.Struct | t.Void):
            if any(field.name == TEXT for field in struct.fields):
                return compatible_type(struct, t.Struct((Field(TEXT, of),)))
        case (t.Date(), t.Timestamp()) | (t.Timestamp(), t.Date()):
            return t.TIMESTAMP
    return compatible_type(left, right)


def _scalar(text: str) -> Type:
    """The type of a text."""
    word = text.strip()
    if not word:
        return t.VOID
    if _WHOLE.fullmatch(word):
        return t.BIGINT if -t.BIGINT.limit <= whole_number(word) < t.BIGINT.limit else t.DOUBLE
    if _NUMBER.fullmatch(word):
        return t.DOUBLE
    if word.lower() in ("true", "false"):
        return t.BOOLEAN
    if _TIME.fullmatch(word):
        if not _WHOLE_TIME.fullmatch(word):
            raise Unsupported(f"the type of {word!r} in XML", hint="Write the schema out.")
        return t.TIME
    if formats.read_timestamp(word) is None:
        return t.STRING
    return t.DATE if _DAY.fullmatch(word) else t.TIMESTAMP


def _known(of: Type) -> Type:
    """A type whose unknown parts are STRING."""
    match of:
        case t.Void():
            return t.STRING
        case t.Array(element):
            return t.Array(_known(element))
        case t.Struct(fields):
            return t.Struct(tuple(Field(field.name, _known(field.type)) for field in fields))
    return of
