"""Arrays and records: making them, and reaching into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.comparison import is_in, order_key
from tidemill.algebra.functions.function import (
    Function,
    Inference,
    Parameter,
    StrictParameter,
    always,
    expect_all,
    expect_count,
    never,
)
from tidemill.algebra.values.coercion import common_type, fits, widest_type
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayValue
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def get_item(array: ArrayValue, index: int) -> Any:
    """``array[index]``, counted from 0; beyond the array is an error."""
    if 0 <= index < len(array):
        return array[index]
    raise _outside(index, array, "GET")


def get(array: ArrayValue, index: int) -> Any:
    """GET: as ``array[index]``, with NULL beyond the array."""
    return array[index] if 0 <= index < len(array) else None


def element_at(array: ArrayValue, position: int) -> Any:
    """ELEMENT_AT: counted from 1, or from -1 at the end; beyond the array is an error."""
    if position == 0 or abs(position) > len(array):
        raise _outside(position, array, "TRY_ELEMENT_AT")
    return array[position - 1 if position > 0 else position]


def try_element_at(array: ArrayValue, position: int) -> Any:
    """TRY_ELEMENT_AT: as ELEMENT_AT, with NULL beyond the array; there is no element 0."""
    return element_at(array, position) if not position or abs(position) <= len(array) else None


def _outside(index: int, array: ArrayValue, instead: str) -> ArithmeticFault:
    return ArithmeticFault(
        f"there is no element {index} in an array of {len(array)}", hint=f"Use {instead} to get NULL instead."
    )


def sort_array(array: ArrayValue, ascending: bool = True) -> ArrayValue:
    """The elements in order: NULLs first, or last where descending."""
    return tuple(sorted(array, key=order_key, reverse=not ascending))


def array_join(array: tuple[str | None, ...], separator: str, null: str | None = None) -> str:
    """The texts with ``separator`` between them; NULLs are left out, or written as ``null``."""
    texts = (null if text is None else text for text in array)
    return separator.join(text for text in texts if text is not None)


def array_distinct(array: ArrayValue) -> ArrayValue:
    """Each value once, where it first stands."""
    first: dict[Any, Any] = {}
    for value in array:
        first.setdefault(order_key(value), value)
    return tuple(first.values())


def array_max(array: ArrayValue) -> Any:
    """The greatest element that is not NULL."""
    return max((value for value in array if value is not None), key=order_key, default=None)


def array_min(array: ArrayValue) -> Any:
    """The least element that is not NULL."""
    return min((value for value in array if value is not None), key=order_key, default=None)


def element_of(type_: Type) -> Type:
    """The type of an array's elements; anything but an array is refused."""
    if isinstance(type_, t.Array):
        return type_.element
    raise TypeMismatch(f"an ARRAY was expected, not {type_}")


def _of_array(*parameters: Parameter, gives: Type | None = None, optional: int = 0) -> Inference:
    """An array and then ``parameters``; gives its elements' type unless told otherwise."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1 + len(parameters) - optional, 1 + len(parameters))
        element = element_of(types[0])
        return (types[0], *expect_all(types[1:], parameters[: len(types) - 1])), gives or element

    return infer


def _same_array(*parameters: Parameter, optional: int = 0) -> Inference:
    """As ``_of_array``, giving an array of the same type."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        wanted, _ = _of_array(*parameters, optional=optional)(types)
        return wanted, wanted[0]

    return infer


def _array_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    common = common_type(types)
    return (common,) * len(types), t.Array(common)


def _contains_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    common = widest_type((element_of(types[0]), types[1]))
    if t.holds_interval(common) and element_of(types[0]) != types[1]:
        raise TypeMismatch(f"an array of {element_of(types[0])} has no {types[1]}", hint="Convert it with CAST.")
    if types[1] == t.VOID:
        raise TypeMismatch("no array contains a bare NULL", hint="Convert it with CAST.")
    return (t.Array(common), common), t.BOOLEAN


def _join_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 3)
    if not fits(element_of(types[0]), t.STRING):
        raise TypeMismatch(f"an ARRAY of texts was expected, not {types[0]}")
    return (t.Array(t.STRING), *expect_all(types[1:], (StrictParameter(t.STRING),) * (len(types) - 1))), t.STRING


def _record_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    raise TypeMismatch("the names of a record's fields are part of its type")


def _size_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    return ((t.VOID,), t.INT) if list(types) == [t.VOID] else _of_array(gives=t.INT)(types)


_POSITION = StrictParameter(t.INT, (t.TINYINT, t.SMALLINT), null=False)

STRUCTS = (
    Function("array", _array_types, lambda *values: values, "array({args})", strict=False, null_when=never, total=True),
    Function("get_item", _of_array(t.INT), get_item, "{0}[{1}]", null_when=always),
    Function("get", _of_array(t.INT), get, "get({args})", null_when=always, total=True),
    Function("element_at", _of_array(_POSITION), element_at, "element_at({args})", null_when=always),
    Function("try_element_at", _of_array(_POSITION), try_element_at, "try_element_at({args})", null_when=always),
    Function("size", _size_types, len, "size({0})", python="len({0})", total=True),
    Function(
        "array_contains",
        _contains_types,
        lambda array, value: is_in(value, *array),
        "array_contains({args})",
        null_when=always,
        total=True,
    ),
    Function(
        "sort_array",
        _same_array(StrictParameter(t.BOOLEAN), optional=1),
        sort_array,
        "sort_array({args})",
        constants=(1,),
        total=True,
    ),
    Function("array_distinct", _same_array(), array_distinct, "array_distinct({0})", total=True),
    Function("array_max", _of_array(), array_max, "array_max({0})", null_when=always, total=True),
    Function("array_min", _of_array(), array_min, "array_min({0})", null_when=always, total=True),
    Function("array_join", _join_types, array_join, "array_join({args})", total=True),
    Function(
        "named_struct",
        _record_types,
        lambda *parts: parts[1::2],
        "named_struct({args})",
        strict=False,
        null_when=never,
        total=True,
    ),
    Function(
        "get_field",
        _record_types,
        lambda record, name, position: record[position],
        "{0}[{1}]",
        python="{0}[{2}]",
        null_when=always,
        total=True,
    ),
)
