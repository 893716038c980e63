"""Values as JSON texts, as TO_JSON writes them: members that are NULL are left out, elements are not."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.algebra.values.documents.json_reader import escaped, quoted
from tidemill.algebra.values.documents.options import DateTimeFormats, flag, read_options
from tidemill.algebra.values.formats import write
from tidemill.algebra.values.variants import variant_json
from tidemill.changes.arrow import microsecond_of_day
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import Type

LOCAL_PATTERN = "yyyy-MM-dd'T'HH:mm:ss[.SSS]"
TIMESTAMP_PATTERN = LOCAL_PATTERN + "[XXX]"
REFUSED_OPTIONS = ("pretty",)


def write_json(value: Any, of: Type) -> str:
    """A value as JSON.

    >>> write_json((1, None), t.Struct((t.Field("a", t.INT), t.Field("b", t.INT))))
    '{"a":1}'
    """
    return json_writer(()).write(value, of)


@lru_cache(maxsize=256)
def json_writer(options: tuple[str, ...]) -> JsonWriter:
    """The writer with options; refuses those that there are not."""
    given = read_options(options, REFUSED_OPTIONS)
    given = {"timestampformat": TIMESTAMP_PATTERN, "timestampntzformat": LOCAL_PATTERN, **given}
    return JsonWriter(
        DateTimeFormats.of(given, reading=False),
        not flag(given, "ignoreNullFields", True),
        flag(given, "writeNonAsciiCharacterAsCodePoint", False),
        flag(given, "sortKeys", False),
    )


@dataclass(frozen=True)
class JsonWriter:
    """Writes values as JSON, ``nulls`` too where they are members of a struct or values of a map.

    With ``ordered`` the members of structs and maps come in the order of their names.
    """

    formats: DateTimeFormats
    nulls: bool
    ascii: bool = False
    ordered: bool = False

    @staticmethod
    def check(options: Sequence[str]) -> None:
        """Refuse options that there are not."""
        json_writer(tuple(options))

    def text(self, value: Any, of: Type) -> str:
        """A value as JSON, in ASCII where that was asked for."""
        written = self.write(value, of)
        return escaped(written) if self.ascii else written

    def write(self, value: Any, of: Type) -> str:
        """A value as JSON."""
        if value is None:
            return "null"
        match of:
            case t.Struct(fields):
                return self._object((f.name, member, f.type) for f, member in zip(fields, value, strict=True))
            case t.Array(element):
                return "[" + ",".join(self.write(each, element) for each in value) + "]"
            case t.Boolean() | t.Integral():
                return write(value, of)
            case t.Decimal():
                return str(value if value else value.copy_abs())
            case t.Floating():
                text = write(value, of)
                return text if text[-1].isdigit() else quoted(text)
            case t.Map(key, element):
                entries = self._in_order([(_key_text(name, key), member, element) for name, member in value])
                return "{" + ",".join(f"{quoted(name)}:{self.write(each, of)}" for name, each, of in entries) + "}"
            case t.Variant():
                return variant_json(value)
            case t.Binary():
                return quoted(base64.b64encode(value).decode())
            case t.Date() | t.Timestamp() | t.Time():
                return quoted(self.formats.write(value, of))
        return quoted(write(value, of))

    def _object(self, members: Iterable[tuple[str, Any, Type]]) -> str:
        kept = self._in_order([member for member in members if self.nulls or member[1] is not None])
        return "{" + ",".join(f"{quoted(name)}:{self.write(value, of)}" for name, value, of in kept) + "}"

    def _in_order(self, members: list[tuple[str, Any, Type]]) -> list[tuple[str, Any, Type]]:
        key = utf16_order if self.ordered else None
        return sorted(members, key=lambda member: key(member[0])) if key else members


def utf16_order(name: str) -> bytes:
    """The units of UTF-16 of a text, which Java compares."""
    return name.encode("utf-16-be", "surrogatepass")


def _key_text(key: Any, of: Type) -> str:
    """The key of a map: a date is its number of days since 1970, a timestamp that of
    microseconds, and a time of day that of nanoseconds."""
    match of:
        case t.AnsiInterval():
            return str(key)
        case t.Time():
            return str(microsecond_of_day(key) * 1000)
        case t.Timestamp():
            return str((key - _MOMENT_ZERO) // _MICROSECOND)
        case t.Date():
            return str(key.toordinal() - _MOMENT_ZERO.toordinal())
    return write(key, of)


def check_json_keys(of: Type) -> None:
    """Refuse maps whose keys are nested: Spark writes them as it stores them."""
    match of:
        case t.Array(element):
            check_json_keys(element)
        case t.Struct(fields):
            for field in fields:
                check_json_keys(field.type)
        case t.Map(key, value):
            plain = isinstance(key, PLAIN_KEYS) or (isinstance(key, t.Decimal) and key.scale <= PLAIN_SCALE)
            if not plain:
                raise Unsupported(f"a map with keys of type {key} as JSON", hint="Make texts of the keys.")
            check_json_keys(value)


PLAIN_KEYS = (t.String, t.Integral, t.Boolean, t.Floating, t.Void, t.Date, t.Timestamp, t.Time, t.AnsiInterval)
PLAIN_SCALE = 6
"""Decimals of a greater scale may have an exponent in their text."""

_MOMENT_ZERO = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
