"""Maps: making them, looking keys up, and their keys, values and entries. Inside a map is a tuple of pairs, in order.

Keys are never NULL, and no two are equal: a map with such keys is an error, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from tidemill.algebra.functions.comparison import compare, order_key
from tidemill.algebra.functions.function import (
    Function,
    Inference,
    StrictParameter,
    always,
    expect,
    expect_count,
    never,
    takes,
)
from tidemill.algebra.functions.nested.structs import element_of
from tidemill.algebra.functions.text.regexp import split
from tidemill.algebra.values.coercion import common_type, tightest_type, widest_type
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayValue
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Field, Type, is_numeric

MapValue = tuple[tuple[Any, Any], ...]
"""A map of SQL."""


def map_of(entries: Iterable[tuple[Any, Any]]) -> MapValue:
    """The map of some entries; a NULL among its keys, or a key that is there twice, is an error.

    >>> map_of([("a", 1), ("b", None)])
    (('a', 1), ('b', None))
    """
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in entries:
        if key is None:
            raise ArithmeticFault("a key of a map is NULL", hint="Leave such entries out.")
        known = order_key(key)
        if known in found:
            raise ArithmeticFault(f"the key {key!r} is twice in a map", hint="Take one of its values.")
        found[known] = (key, value)
    return tuple(found.values())


def map_from_arrays(keys: ArrayValue, values: ArrayValue) -> MapValue:
    """The map with these keys and, at the same positions, these values."""
    if len(keys) != len(values):
        raise ArithmeticFault(f"a map of {len(keys)} keys and {len(values)} values")
    return map_of(zip(keys, values, strict=True))


def map_from_entries(entries: ArrayValue) -> MapValue | None:
    """The map of an array of pairs; NULL if one of them is NULL."""
    return None if None in entries else map_of(entries)


def value_of(map_: MapValue, key: Any) -> Any:
    """The value of a key; NULL if it is not there."""
    return next((value for known, value in map_ if compare(known, key) == 0), None)


def contains_key(map_: MapValue, key: Any) -> bool:
    """True if a key is there, whatever its value is."""
    return any(compare(known, key) == 0 for known, _ in map_)


def str_to_map(text: str, between: str = ",", within: str = ":") -> MapValue:
    """The pairs of a text: ``between`` them, and ``within`` each between key and value, stand regular expressions.

    >>> str_to_map("a:1,b")
    (('a', '1'), ('b', None))
    """
    pairs = (split(pair, within, 2) for pair in split(text, between, -1))
    return map_of((pair[0], pair[1] if len(pair) > 1 else None) for pair in pairs)


def map_filter(map_: MapValue, test: Callable[[Any, Any], Any]) -> MapValue:
    """The entries for which ``test`` is true."""
    return tuple(entry for entry in map_ if test(*entry) is True)


def transform_keys(map_: MapValue, change: Callable[[Any, Any], Any]) -> MapValue:
    """Each entry with ``change`` of it as its key."""
    return map_of((change(key, value), value) for key, value in map_)


def transform_values(map_: MapValue, change: Callable[[Any, Any], Any]) -> MapValue:
    """Each entry with ``change`` of it as its value."""
    return tuple((key, change(key, value)) for key, value in map_)


def map_zip_with(one: MapValue, other: MapValue, merge: Callable[[Any, Any, Any], Any]) -> MapValue:
    """For each key of either map ``merge`` of it and of its values in both; NULL where it has none."""
    keys = {order_key(key): key for key, _ in (*one, *other)}
    return tuple((key, merge(key, value_of(one, key), value_of(other, key))) for key in keys.values())


def as_map(type_: Type) -> t.Map:
    """A type that is a MAP; any other is refused."""
    if isinstance(type_, t.Map):
        return type_
    raise TypeMismatch(f"a MAP was expected, not {type_}")


def entry_of(map_: t.Map) -> t.Struct:
    """The type of an entry, as a struct."""
    return t.Struct((Field("key", map_.key, nullable=False), Field("value", map_.value)))


def _of_map(gives: Callable[[t.Map], Type]) -> Inference:
    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1, 1)
        return tuple(types), gives(as_map(types[0]))

    return infer


def _lookup(gives: Type | None = None) -> Inference:
    """A map and one of its keys, both brought to the wider type of the two."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        map_ = as_map(types[0])
        if types[1] == t.VOID:
            raise TypeMismatch("no key of a map is NULL", hint="Convert it with CAST.")
        key = tightest_type(map_.key, types[1])
        return (t.Map(key, map_.value), key), gives or map_.value

    return infer


def _contained(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A map and what may be one of its keys; numbers of any types are compared."""
    expect_count(types, 2, 2)
    map_ = as_map(types[0])
    if not (is_numeric(map_.key) and is_numeric(types[1])):
        return _lookup(t.BOOLEAN)(types)
    key = widest_type((map_.key, types[1]))
    return (t.Map(key, map_.value), key), t.BOOLEAN


def _key_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A map and, in brackets, a value that becomes one of its keys."""
    expect_count(types, 2, 2)
    map_ = as_map(types[0])
    return (map_, expect(types[1], map_.key)), map_.value


def _map_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    if len(types) % 2:
        raise TypeMismatch("a map is made of keys, each followed by its value", hint="MAP('a', 1, 'b', 2)")
    key, value = common_type(types[::2]), common_type(types[1::2])
    return (key, value) * (len(types) // 2), _checked(t.Map(key, value))


def _checked(map_: t.Map) -> t.Map:
    if not t.is_comparable(map_.key):
        raise TypeMismatch("a key of a map cannot be a map, or hold one")
    return map_


def _from_arrays_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    return tuple(types), _checked(t.Map(*map(element_of, types)))


def _from_entries_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    entry = element_of(types[0])
    if not isinstance(entry, t.Struct) or len(entry.fields) != 2:
        raise TypeMismatch(f"an ARRAY of pairs was expected, not {types[0]}")
    return tuple(types), _checked(t.Map(*(f.type for f in entry.fields)))


def _concat_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    common = common_type([as_map(type_) for type_ in types]) if types else t.Map(t.STRING, t.STRING)
    return (common,) * len(types), common


def _with_lambda(gives: Callable[[t.Map, Type], Type], wanted: Type | None = None) -> Inference:
    """A map and a lambda of its keys and values."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        if wanted is not None and types[1] not in (wanted, t.VOID):
            raise TypeMismatch(f"the lambda has to give {wanted}, not {types[1]}", hint="Convert it with CAST.")
        return (types[0], wanted or types[1]), gives(as_map(types[0]), types[1])

    return infer


def _zip_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 3, 3)
    one, other = map(as_map, types[:2])
    key = common_type((one.key, other.key))
    return (t.Map(key, one.value), t.Map(key, other.value), types[2]), t.Map(key, types[2])


def _entries(*parts: Any) -> Iterable[tuple[Any, Any]]:
    return zip(parts[::2], parts[1::2], strict=True)


MAPS = (
    Function(
        "map", _map_types, lambda *parts: map_of(_entries(*parts)), "map({args})", strict=False, null_when=never
    ),
    Function("map_from_arrays", _from_arrays_types, map_from_arrays, "map_from_arrays({args})"),
    Function(
        "map_from_entries", _from_entries_types, map_from_entries, "map_from_entries({args})", null_when=always
    ),
    Function("map_concat", _concat_types, lambda *maps: map_of(chain(*maps)), "map_concat({args})"),
    Function(
        "map_keys",
        _of_map(lambda map_: t.Array(map_.key)),
        lambda map_: tuple(key for key, _ in map_),
        "map_keys({0})",
        total=True,
    ),
    Function(
        "map_values",
        _of_map(lambda map_: t.Array(map_.value)),
        lambda map_: tuple(value for _, value in map_),
        "map_values({0})",
        total=True,
    ),
    Function(
        "map_entries", _of_map(lambda map_: t.Array(entry_of(map_))), lambda map_: map_, "map_entries({0})", total=True
    ),
    Function("map_size", _of_map(lambda map_: t.INT), len, "size({0})", python="len({0})", total=True),
    Function("map_value", _key_types, value_of, "{0}[{1}]", null_when=always, total=True),
    Function("map_element", _lookup(), value_of, "element_at({args})", null_when=always, total=True),
    Function("map_contains_key", _contained, contains_key, "map_contains_key({args})", total=True),
    Function(
        "str_to_map", takes(*[StrictParameter(t.STRING)] * 3, gives=t.Map(t.STRING, t.STRING), optional=2),
        str_to_map, "str_to_map({args})",
    ),
    Function("map_filter", _with_lambda(lambda map_, _: map_, t.BOOLEAN), map_filter, "map_filter({args})"),
    Function(
        "transform_keys",
        _with_lambda(lambda map_, key: _checked(t.Map(key, map_.value))),
        transform_keys,
        "transform_keys({args})",
    ),
    Function(
        "transform_values",
        _with_lambda(lambda map_, value: t.Map(map_.key, value)),
        transform_values,
        "transform_values({args})",
    ),
    Function("map_zip_with", _zip_types, map_zip_with, "map_zip_with({args})"),
)  # fmt: skip
