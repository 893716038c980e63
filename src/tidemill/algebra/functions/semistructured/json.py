"""JSON in texts: the value at a path, the parts of an array or object, and values read from JSON and written as JSON.

`from_json(text, schema, options)` takes a schema as text, a type or a list of columns, or `schema_of_json` of a
constant. A value that is not of its type is NULL; of an array or a map with such an element all is. A text that is no
JSON gives a struct of NULLs, or an error with the mode `FAILFAST`. Options are a `map` of constant texts: of
`from_json` the mode, the patterns `dateFormat`, `timestampFormat` and `timestampNTZFormat`,
`columnNameOfCorruptRecord`, and what departs from the standard (`allowComments`, `allowUnquotedFieldNames`,
`allowSingleQuotes`, `allowNumericLeadingZeros`, `allowBackslashEscapingAnyCharacter`, `allowUnquotedControlChars`,
`allowNonNumericNumbers`); of `to_json` the patterns and `ignoreNullFields`; of `schema_of_json` also
`primitivesAsString` and `prefersDecimal`. `json_tuple` is a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, expect_count, takes
from tidemill.algebra.values.documents.json_paths import (
    get_json_object,
    json_array_length,
    json_member,
    json_object_keys,
)
from tidemill.algebra.values.records.json_values import json_value_reader
from tidemill.algebra.values.records.json_writer import JsonWriter, check_json_keys, json_writer
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type


def to_json(types: Sequence[Type], value: Any, *options: str) -> str:
    """A record, an array or a map as JSON."""
    return json_writer(options).text(value, types[0])


def from_json(of: Type, text: str, schema: str, *options: str) -> Any:
    """The value of a JSON text."""
    return json_value_reader(of, options).read(text)


def with_options(function: str, before: int) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """The Spark SQL of a call whose arguments from ``before`` on are names and values of options."""

    def spelling(texts: Sequence[str], types: Sequence[Type], of: Type) -> str:
        options = f", map({', '.join(texts[before:])})" if texts[before:] else ""
        return f"{function}({', '.join(texts[:before])}{options})"

    return spelling


def needs_schema(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """The types of a function whose result type is that of a schema, which only SQL can read."""
    raise TypeMismatch("its schema is a constant text of a query in SQL")


def _nested_type(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if not isinstance(types[0], t.Struct | t.Array | t.Map | t.Variant | t.Void):
        raise TypeMismatch(f"a STRUCT, an ARRAY, a MAP or a VARIANT was expected, not {types[0]}")
    check_json_keys(types[0])
    return (types[0],), t.STRING


_TEXT = StrictParameter(t.STRING)

JSON = (
    Function(
        "get_json_object",
        takes(_TEXT, _TEXT, gives=t.STRING),
        get_json_object,
        "get_json_object({args})",
        null_when=always,
        total=True,
    ),
    Function(
        "json_array_length",
        takes(_TEXT, gives=t.INT),
        json_array_length,
        "json_array_length({0})",
        null_when=always,
        total=True,
    ),
    Function(
        "json_object_keys",
        takes(_TEXT, gives=t.Array(t.STRING)),
        json_object_keys,
        "json_object_keys({0})",
        null_when=always,
        total=True,
    ),
    Function(
        "json_member",
        takes(StrictParameter(t.STRING, null=False), StrictParameter(t.STRING, null=False), gives=t.STRING),
        json_member,
        "try_element_at(filter(map_entries(from_json({0}, 'MAP<STRING, STRING>', map('allowUnquotedControlChars',"
        " 'true', 'allowNonNumericNumbers', 'false'))), e -> e.key = {1} AND e.value IS NOT NULL), -1).value",
        null_when=always,
        total=True,
    ),
    Function(
        "from_json",
        needs_schema,
        from_json,
        "from_json({args})",
        typed=True,
        null_when=always,
        spelling=with_options("from_json", 2),
    ),
    Function(
        "to_json",
        _nested_type,
        to_json,
        "to_json({args})",
        of_types=True,
        check=lambda values: JsonWriter.check(values[1:]),
        spelling=with_options("to_json", 1),
        total=True,
    ),
)
