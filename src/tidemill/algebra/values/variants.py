"""Variants by Spark's rules: read from JSON, found by a path, converted to and from other types, written as text."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tidemill.algebra.values import formats
from tidemill.algebra.values.documents.json_document import JsonDocument, read_document
from tidemill.algebra.values.documents.json_reader import JsonSyntax, MalformedJson, quoted
from tidemill.algebra.values.documents.json_schema import compatible_type, schema_name
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Field, Type
from tidemill.model.variants import (
    INTEGER_LIMIT,
    MAX_DEPTH,
    MAX_DIGITS,
    Node,
    NotVariant,
    Single,
    encode_variant,
    encoded_array,
    encoded_object,
    encoded_text,
    is_array,
    read_node,
    scalar_of,
    write_node,
)
from tidemill.model.whole_numbers import whole_number

STRICT = JsonSyntax(single_quotes=False, control_characters=False)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|\.(?P<name>[^.\[]+)|\['(?P<single>[^'?]+)'\]|\[\"(?P<double>[^\"?]+)\"\]")

HELD = (t.Boolean, t.Integral, t.Decimal, t.Floating, t.String, t.Binary, t.Date, t.Timestamp, t.Variant)
"""The types of the scalars that a variant holds."""

PathSteps = tuple[int | str, ...]


# ---- from JSON ----


def parse_variant(text: str) -> str:
    """The variant of a JSON text; an error where it is no JSON, or an object has a member twice."""
    found = try_parse_variant(text)
    if found is None:
        raise ArithmeticFault(f"{text[:100]!r} is no JSON", hint="Use TRY_PARSE_JSON to get NULL instead.")
    return found


def try_parse_variant(text: str) -> str | None:
    """The variant of a JSON text; None where it is no JSON.

    >>> try_parse_variant('{"b": [1, 2.50, 1e3], "a": null}'), try_parse_variant("{")
    ('{"a":null,"b":[0,1,["m","2.5"],["d","1000.0"]]}', None)
    """
    try:
        document = read_document(text, STRICT)
        return None if document is None else from_document(document, 0)
    except (MalformedJson, NotVariant):
        return None


def from_document(document: JsonDocument, start: int, depth: int = 0) -> str:
    """The variant of the value at a position of a JSON text."""
    if depth > MAX_DEPTH:
        raise ArithmeticFault(f"a JSON text has more than {MAX_DEPTH} levels")
    kind, text = document.tokens[start]
    match kind:
        case "[":
            return encoded_array([from_document(document, at, depth + 1) for at in document.elements(start)])
        case "{":
            members: dict[str, str] = {}
            for name, at in document.members(start):
                if name in members:
                    raise NotVariant("a member is there twice")
                members[_encodable(name)] = from_document(document, at, depth + 1)
            return encoded_object(members)
        case "string":
            return encoded_text(_encodable(text))
        case "word":
            return text
    return encode_variant(_number(text))


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _number(text: str) -> int | float | decimal.Decimal:
    """An integer, or with a fraction a DECIMAL, or with an exponent or too many digits a DOUBLE."""
    found = _PLAIN_NUMBER.fullmatch(text)
    if not found:
        return float(text)
    if found[1] is None and -INTEGER_LIMIT <= whole_number(text) < INTEGER_LIMIT:
        return int(text)
    number = decimal.Decimal(text)
    digits = len(number.as_tuple().digits)
    return number if max(digits, len(found[1] or "")) <= MAX_DIGITS else float(text)


# ---- paths ----


@lru_cache(maxsize=256)
def read_variant_path(path: str) -> PathSteps:
    """The steps of a path such as ``$.a[0]['b c']``.

    >>> read_variant_path("$.a[0]['b c']")
    ('a', 0, 'b c')
    """
    steps, position = list[int | str](), 1
    while path.startswith("$") and position < len(path):
        found = _STEP.match(path, position)
        if not found:
            break
        name = found["name"] or found["single"] or found["double"]
        steps.append(name if name is not None else whole_number(found["index"]))
        position = found.end()
    if not path.startswith("$") or position < len(path):
        raise ArithmeticFault(f"{path!r} is no path into a variant", hint="Write $.name, $['name'] or $[0].")
    return tuple(steps)


def check_variant_path(path: str, root: bool = True) -> None:
    """Refuse a constant that is no path, before any row is there; and the ``root``, where that is none."""
    try:
        steps = read_variant_path(path)
    except ArithmeticFault as fault:
        raise TypeMismatch(fault.what, hint=fault.hint) from None
    if not steps and not root:
        raise TypeMismatch("the path $ is the whole variant", hint="Name a member or an element.")


def variant_at(variant: str, path: str) -> Node | None:
    """The node at a path, in a list; None where there is none."""
    node = read_node(variant)
    for step in read_variant_path(path):
        if isinstance(step, str):
            if not isinstance(node, dict) or step not in node:
                return None
            node = node[step]
        else:
            if not is_array(node) or step >= len(node) - 1:
                return None
            node = node[step + 1]
    return [node]


# ---- other types ----


def is_variant_target(of: Type) -> bool:
    """True if variants are cast to a type."""
    match of:
        case t.Array(element):
            return is_variant_target(element)
        case t.Map(key, value):
            return key == t.STRING and is_variant_target(value)
        case t.Struct(fields):
            return all(is_variant_target(field.type) for field in fields)
    return isinstance(of, HELD)


def is_variant_source(of: Type, nested: bool = False) -> bool:
    """True if CAST makes variants of values of a type, or where ``nested`` TO_VARIANT_OBJECT does."""
    match of:
        case t.Array(element):
            return is_variant_source(element, nested)
        case t.Map(key, value):
            return nested and key == t.STRING and is_variant_source(value, nested)
        case t.Struct(fields):
            return nested and all(is_variant_source(f.type, nested) for f in fields)
    return isinstance(of, HELD)


def has_variant(of: Type) -> bool:
    """True for VARIANT, and for a type that holds some."""
    match of:
        case t.Array(element):
            return has_variant(element)
        case t.Map(_, value):
            return has_variant(value)
        case t.Struct(fields):
            return any(has_variant(f.type) for f in fields)
    return isinstance(of, t.Variant)


def to_variant(value: Any, of: Type) -> str:
    """The variant of a value; NULL within an array or a struct is the variant NULL."""
    if value is None:
        return "null"
    match of:
        case t.Variant():
            return str(value)
        case t.Array(element):
            return encoded_array([to_variant(each, element) for each in value])
        case t.Map(_, element):
            return _unique_object([(name, to_variant(each, element)) for name, each in value])
        case t.Struct(fields):
            pairs = zip(fields, value, strict=True)
            return _unique_object([(f.name, to_variant(each, f.type)) for f, each in pairs])
        case t.TimestampNtz():
            return encode_variant(value)
        case t.Timestamp():
            return encode_variant(value.replace(tzinfo=datetime.UTC))
        case t.Float():
            return encode_variant(Single(value))
    return encode_variant(value)


def _unique_object(members: list[tuple[str, str]]) -> str:
    named = dict(members)
    if len(named) < len(members):
        raise ArithmeticFault("an object of a variant has each of its members once")
    return encoded_object(named)


# ---- as text ----


def variant_json(variant: str) -> str:
    """A variant as JSON.

    >>> variant_json('{"a":["m","1.5"],"b":[0,1,null]}')
    '{"a":1.5,"b":[1,null]}'
    """
    return node_json(read_node(variant))


def node_json(node: Node) -> str:
    """The node of a variant as JSON."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{quoted(name)}:{node_json(each)}" for name, each in node.items()) + "}"
    if is_array(node):
        return "[" + ",".join(map(node_json, node[1:])) + "]"
    return _scalar_json(node)


def _scalar_json(node: Node) -> str:
    of, value = scalar_type(node), inner_scalar(node)
    match of:
        case t.Void():
            return "null"
        case t.Boolean() | t.BigInt() | t.Decimal():
            return formats.write(value, of)
        case t.Floating():
            text = formats.write(value, of)
            return text if text[-1].isdigit() else quoted(text)
        case t.Binary():
            return quoted(base64.b64encode(value).decode())
        case t.TimestampNtz():
            return quoted(formats.write(value, of))
        case t.Timestamp():
            return quoted(formats.write(value, of) + "+00:00")
    return quoted(formats.write(value, of))


# ---- types within ----


def inner_scalar(node: Node) -> Any:
    """A scalar of a variant as an inner value of its type."""
    value = scalar_of(node)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return float(value) if isinstance(value, Single) else value


def scalar_type(node: Node) -> Type:
    """The type of a variant that is no array and no object."""
    value = scalar_of(node)
    match value:
        case None:
            return t.VOID
        case bool():
            return t.BOOLEAN
        case int():
            return t.BIGINT
        case decimal.Decimal():
            _, digits, exponent = value.as_tuple()
            scale = -int(exponent)
            return t.Decimal(max(len(digits), scale), scale)
        case Single():
            return t.FLOAT
        case float():
            return t.DOUBLE
        case str():
            return t.STRING
        case bytes():
            return t.BINARY
        case datetime.datetime():
            return t.TIMESTAMP_NTZ if value.tzinfo is None else t.TIMESTAMP
    return t.DATE


def node_type(node: Node) -> Type:
    """The type of a variant: an object is a struct, and the elements of an array have a type that holds them all."""
    if isinstance(node, dict):
        return t.Struct(tuple(Field(name, node_type(each)) for name, each in node.items()))
    if is_array(node):
        of: Type = t.VOID
        for each in node[1:]:
            of = compatible_type(of, node_type(each), t.VARIANT)
        return t.Array(of)
    return scalar_type(node)


def variant_schema(of: Type) -> str:
    """The type of variants as SCHEMA_OF_VARIANT writes it."""
    match of:
        case t.Struct(fields):
            return f"OBJECT<{', '.join(f'{schema_name(f.name)}: {variant_schema(f.type)}' for f in fields)}>"
        case t.Array(element):
            return f"ARRAY<{variant_schema(element)}>"
    return str(of)


def variant_entries(variant: str) -> tuple[tuple[int, str | None, str], ...]:
    """The elements of an array or the members of an object: position, name and value."""
    node = read_node(variant)
    if isinstance(node, Mapping):
        return tuple((place, name, write_node(each)) for place, (name, each) in enumerate(node.items()))
    return tuple((place, None, write_node(each)) for place, each in enumerate(node[1:])) if is_array(node) else ()
