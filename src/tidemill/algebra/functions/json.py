"""JSON in texts: the value at a path, the parts of an array or object, and records written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, expect_count, takes
from tidemill.algebra.values.json_paths import get_json_object, json_array_length, json_object_keys
from tidemill.algebra.values.json_writer import write_json
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type


def to_json(types: Sequence[Type], value: Any) -> str:
    """A record or an array as JSON."""
    return write_json(value, types[0])


def _nested_type(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if not isinstance(types[0], t.Struct | t.Array | t.Map | t.Void):
        raise TypeMismatch(f"a STRUCT, an ARRAY or a MAP was expected, not {types[0]}")
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
    Function("to_json", _nested_type, to_json, "to_json({0})", of_types=True, total=True),
)
