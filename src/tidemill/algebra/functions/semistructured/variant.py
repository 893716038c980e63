"""VARIANT: values of any type, made of JSON or of other values, and read by paths.

A path is a text such as `$.a[0]['b c']`; `v:a[0]` is short for it. What a path does not find is NULL, and so is the
variant NULL as any other type. `variant_get` casts what it finds to a type, given as a constant text; what does not fit
is an error, and NULL in `try_variant_get`. `variant_explode` and `variant_explode_outer` are generators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import (
    Function,
    Inference,
    StrictParameter,
    always,
    expect_all,
    expect_count,
    never,
    takes,
)
from tidemill.algebra.functions.semistructured.json import needs_schema
from tidemill.algebra.values.casts import from_node
from tidemill.algebra.values.variant_edits import append_at, delete_at, edited, insert_at, set_at, without_nulls
from tidemill.algebra.values.variants import (
    check_variant_path,
    is_variant_source,
    node_type,
    parse_variant,
    to_variant,
    try_parse_variant,
    variant_at,
    variant_entries,
    variant_schema,
)
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Field, Type
from tidemill.model.variants import read_node, write_node

ENTRIES = t.Array(t.Struct((Field("pos", t.INT), Field("key", t.STRING), Field("value", t.VARIANT))))
"""The parts of a variant: positions, names and values."""

_TEXT = StrictParameter(t.STRING)
_VARIANT = StrictParameter(t.VARIANT)
_FLAG = StrictParameter(t.BOOLEAN)


def variant_get(of: Type, variant: str, path: str, type_: str) -> Any:
    """The value at a path, as a value of a type."""
    found = variant_at(variant, path)
    return None if found is None else from_node(found[0], of, lenient=False)


def try_variant_get(of: Type, variant: str, path: str, type_: str) -> Any:
    """The value at a path, as a value of a type; NULL where it does not fit."""
    found = variant_at(variant, path)
    return None if found is None else from_node(found[0], of, lenient=True)


def is_variant_null(variant: str | None) -> bool:
    """True for the variant NULL, which is a value."""
    return variant == "null"


def schema_of_variant(variant: str) -> str:
    """The type of a variant."""
    return variant_schema(node_type(read_node(variant)))


def to_variant_object(types: Sequence[Type], value: Any) -> str:
    """The variant of a struct, a map, or an array of them."""
    return to_variant(value, types[0])


def _object_type(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if not isinstance(types[0], t.Struct | t.Map | t.Array) or not is_variant_source(types[0], nested=True):
        raise TypeMismatch(f"{types[0]} cannot be an object of a variant")
    return (types[0],), t.VARIANT


def variant_insert(variant: str, path: str, value: str) -> str | None:
    """A variant with a new member or element."""
    return edited(variant, path, insert_at(read_node(value)), lenient=False)


def try_variant_insert(variant: str, path: str, value: str) -> str | None:
    """A variant with a new member or element; NULL where the path does not fit."""
    return edited(variant, path, insert_at(read_node(value)), lenient=True)


def variant_set(variant: str, path: str, value: str, create: bool = True) -> str | None:
    """A variant with a member or element replaced."""
    return edited(variant, path, set_at(read_node(value), create), lenient=False)


def try_variant_set(variant: str, path: str, value: str, create: bool = True) -> str | None:
    """A variant with a member or element replaced; NULL where the path does not fit."""
    return edited(variant, path, set_at(read_node(value), create), lenient=True)


def variant_array_append(variant: str, path: str, value: str) -> str | None:
    """A variant with one more element of an array."""
    return edited(variant, path, append_at(read_node(value)), lenient=False)


def try_variant_array_append(variant: str, path: str, value: str) -> str | None:
    """A variant with one more element of an array; NULL where the path does not fit."""
    return edited(variant, path, append_at(read_node(value)), lenient=True)


def variant_delete(variant: str | None, *paths: str | None) -> str | None:
    """A variant without the members or elements at some paths."""
    for path in paths:
        if variant is not None and path is not None:
            variant = edited(variant, path, delete_at, lenient=False)
    return variant


def variant_strip_nulls(variant: str, arrays: bool = True) -> str:
    """A variant without members, and perhaps elements, that are NULL."""
    return write_node(without_nulls(read_node(variant), arrays))


def is_valid_variant(variant: str) -> bool:
    """True: every variant is valid here."""
    return True


def _edit_types(optional: bool) -> Inference:
    """A variant, a path, a value that becomes a variant, and perhaps a flag."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 3, 4 if optional else 3)
        if types[2] not in (t.VARIANT, t.VOID) and not is_variant_source(types[2]):
            raise TypeMismatch(f"{types[2]} cannot be cast to VARIANT")
        given = [types[0], types[1], t.VARIANT, *types[3:]]
        return expect_all(given, (_VARIANT, _TEXT, _VARIANT, _FLAG)[: len(types)]), t.VARIANT

    return infer


def _delete_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2)
    return expect_all(types, (_VARIANT, *[_TEXT] * (len(types) - 1))), t.VARIANT


def _check_paths(values: Sequence[Any]) -> None:
    for value in values[1:]:
        if isinstance(value, str):
            check_variant_path(value, root=False)


def _check_path(values: Sequence[Any]) -> None:
    if isinstance(values[1], str):
        check_variant_path(values[1])


def _check_edit(values: Sequence[Any]) -> None:
    if isinstance(values[1], str):
        check_variant_path(values[1], root=False)


def _function(name: str, infer: Inference, apply: Callable[..., Any], **more: Any) -> Function:
    return Function(name, infer, apply, f"{name}({{args}})", **more)


VARIANTS = (
    _function("parse_json", takes(_TEXT, gives=t.VARIANT), parse_variant),
    _function("try_parse_json", takes(_TEXT, gives=t.VARIANT), try_parse_variant, null_when=always, total=True),
    _function("variant_get", needs_schema, variant_get, typed=True, null_when=always),
    _function("try_variant_get", needs_schema, try_variant_get, typed=True, null_when=always),
    _function(
        "is_variant_null", takes(_VARIANT, gives=t.BOOLEAN), is_variant_null, strict=False, null_when=never, total=True
    ),
    _function("schema_of_variant", takes(_VARIANT, gives=t.STRING), schema_of_variant, total=True),
    _function("is_valid_variant", takes(_VARIANT, gives=t.BOOLEAN), is_valid_variant, total=True),
    _function("variant_insert", _edit_types(False), variant_insert, check=_check_edit),
    _function("try_variant_insert", _edit_types(False), try_variant_insert, check=_check_edit, null_when=always),
    _function("variant_set", _edit_types(True), variant_set, check=_check_edit, constants=(3,)),
    _function(
        "try_variant_set", _edit_types(True), try_variant_set, check=_check_edit, null_when=always, constants=(3,)
    ),
    _function("variant_array_append", _edit_types(False), variant_array_append, check=_check_path),
    _function(
        "try_variant_array_append", _edit_types(False), try_variant_array_append, check=_check_path, null_when=always
    ),
    _function("variant_delete", _delete_types, variant_delete, check=_check_paths, strict=False, null_when=always),
    _function(
        "variant_strip_nulls",
        takes(_VARIANT, _FLAG, gives=t.VARIANT, optional=1),
        variant_strip_nulls,
        constants=(1,),
        total=True,
    ),
    _function("to_variant_object", _object_type, to_variant_object, of_types=True),
    _function("variant_entries", takes(_VARIANT, gives=ENTRIES), variant_entries, total=True),
)
