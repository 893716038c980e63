"""The type of a JSON text, as SCHEMA_OF_JSON finds it: members in order of their names, the widest type of elements."""

from __future__ import annotations

import decimal
import re

from tidemill.algebra.values.documents.json_document import JsonDocument, json_syntax, read_document
from tidemill.algebra.values.documents.json_reader import NAMED_NUMBERS, MalformedJson
from tidemill.algebra.values.documents.options import Options, flag, read_options
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import MAX_PRECISION, Field, Type
from tidemill.model.whole_numbers import whole_number

REFUSED_OPTIONS = ("infertimestamp", "dropfieldifallnull", "samplingratio")
_NAME = re.compile(r"(?!\d+$)[a-zA-Z0-9_]+")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?")


def schema_of_json(text: str, *options: str) -> str:
    """The type of a JSON text, as DDL.

    >>> schema_of_json('{"b": [1, 2.5], "a": {"c": null}}')
    'STRUCT<a: STRUCT<c: STRING>, b: ARRAY<DOUBLE>>'
    """
    given = read_options(options, REFUSED_OPTIONS)
    try:
        document = read_document(text, json_syntax(given))
    except MalformedJson:
        raise TypeMismatch(f"{text[:100]!r} is no JSON") from None
    return schema_sql(_complete(t.VOID if document is None else JsonInference(given).type_at(document, 0)))


def schema_sql(of: Type) -> str:
    """A type as Spark's DDL; names that are more than letters, digits and underscores are quoted."""
    match of:
        case t.Array(element):
            return f"ARRAY<{schema_sql(element)}>"
        case t.Map(key, value):
            return f"MAP<{schema_sql(key)}, {schema_sql(value)}>"
        case t.Struct(fields):
            return f"STRUCT<{', '.join(f'{schema_name(f.name)}: {schema_sql(f.type)}' for f in fields)}>"
    return str(of)


def schema_name(name: str) -> str:
    """The name of a member in DDL.

    >>> schema_name("a_1"), schema_name("a b"), schema_name("12")
    ('a_1', '`a b`', '`12`')
    """
    return name if _NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


class JsonInference:
    """Finds the types of values."""

    def __init__(self, options: Options) -> None:
        self._as_text = flag(options, "primitivesAsString", False)
        self._decimals = flag(options, "prefersDecimal", False)

    def type_at(self, document: JsonDocument, start: int) -> Type:
        """The type of the value at a position; VOID where only NULL is known."""
        kind, text = document.tokens[start]
        match kind:
            case "{":
                members = [Field(name, self.type_at(document, at)) for name, at in document.members(start)]
                return t.Struct(tuple(sorted(members, key=lambda field: field.name.encode("utf-16-be", "replace"))))
            case "[":
                element: Type = t.VOID
                for at in document.elements(start):
                    element = compatible_type(element, self.type_at(document, at))
                return t.Array(element)
            case "string":
                return t.VOID if not text else (self._decimals and decimal_type(text.replace(",", ""))) or t.STRING
            case "word" if text == "null":
                return t.VOID
        if self._as_text:
            return t.STRING
        if kind == "word":
            return t.BOOLEAN
        return self._number(kind, text)

    def _number(self, kind: str, text: str) -> Type:
        if kind == "integer" and -t.BIGINT.limit <= whole_number(text) < t.BIGINT.limit:
            return t.BIGINT
        if text in NAMED_NUMBERS or (kind == "number" and not self._decimals):
            return t.DOUBLE
        return decimal_type(text) or t.DOUBLE


def decimal_type(text: str) -> t.Decimal | None:
    """The narrowest DECIMAL of a number; None where it has more than 38 digits, or the text is no number."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = decimal.Decimal(text)
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > MAX_PRECISION:
        return None
    if scale < 0:
        raise TypeMismatch(f"{text} would be a DECIMAL of a negative scale")
    return t.Decimal(precision, scale)


def compatible_type(left: Type, right: Type, otherwise: Type = t.STRING) -> Type:
    """The type that holds values of both; ``otherwise`` where there is no other."""
    match left, right:
        case _ if left == right:
            return left
        case (t.Void(), other) | (other, t.Void()):
            return other
        case (t.BigInt(), t.Double()) | (t.Double(), t.BigInt() | t.Decimal()) | (t.Decimal(), t.Double()):
            return t.DOUBLE
        case (t.BigInt(), t.Decimal() as other) | (t.Decimal() as other, t.BigInt()):
            return _wider(t.Decimal(20, 0), other)
        case t.Decimal(), t.Decimal():
            return _wider(left, right)
        case t.Array(one), t.Array(other):
            return t.Array(compatible_type(one, other, otherwise))
        case t.Struct(), t.Struct():
            return _merged(left, right, otherwise)
    return otherwise


def _wider(left: t.Decimal, right: t.Decimal) -> Type:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return t.DOUBLE if whole + scale > MAX_PRECISION else t.Decimal(whole + scale, scale)


def _merged(left: t.Struct, right: t.Struct, otherwise: Type) -> t.Struct:
    types: dict[str, Type] = {}
    for field in (*left.fields, *right.fields):
        types[field.name] = compatible_type(types.get(field.name, t.VOID), field.type, otherwise)
    names = sorted(types, key=lambda name: name.encode("utf-16-be", "replace"))
    return t.Struct(tuple(Field(name, types[name]) for name in names))


def _complete(of: Type) -> Type:
    """A type whose unknown parts are STRING, and without structs that have no members."""
    found = _without_empty(of)
    if found is not None:
        return found
    return (
        t.Array(t.Struct(()))
        if isinstance(of, t.Array) and isinstance(of.element, t.Struct)
        else (t.Struct(()) if isinstance(of, t.Struct) else t.STRING)
    )


def _without_empty(of: Type) -> Type | None:
    match of:
        case t.Void():
            return t.STRING
        case t.Array(element):
            kept = _without_empty(element)
            return None if kept is None else t.Array(kept)
        case t.Struct(fields):
            members = [(f.name, _without_empty(f.type)) for f in fields if f.name]
            whole = tuple(Field(name, kept) for name, kept in members if kept is not None)
            return t.Struct(whole) if whole else None
    return of
