"""Values from outside become inner values; inner values become what people read.

Nothing is lost on the way, but digits of a DECIMAL beyond its scale: they are rounded as Spark's store assignment does.

What each type takes, beside its own inner form (``model.types`` has the table):

========== ===================================================================================================
BOOLEAN    nothing else: 0 and 1 are numbers
TINYINT to BIGINT whole floats and decimals, within the type's range
DECIMAL    integers, floats and strings, rounded to its scale, half up; never beyond its precision
DOUBLE     integers that a double holds exactly, decimals (rounded to the nearest double)
BINARY     bytearray, memoryview; never text
STRING     nothing else; VARCHAR(n) cuts spaces beyond n characters off, and takes nothing longer; CHAR(n) adds spaces
DATE       ISO strings, datetimes at midnight
TIME       ISO strings; no more digits of a second than declared, and no time zone
TIMESTAMP  ISO strings, dates; with a time zone they are brought to UTC, without one they are UTC
INTERVAL   of years and months: numbers of months; of days and time: timedeltas; texts as CAST reads them
ARRAY      lists and tuples
MAP        mappings, lists of pairs
STRUCT     mappings by name, tuples and lists by position
VARIANT    what JSON has, dates, timestamps, decimals and bytes; a text is not read as JSON
=======
========== ===================================================================================================

NumPy's scalars count as the Python values they hold. Converters are built once for a type and kept, so that a row of
plain values costs one small call for each of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree, ArrayValue, as_array
from tidemill.model.converters import (
    INNER,
    PLAIN,
    Converter,
    is_numpy,
    refuse,
    to_char,
    to_decimal,
    to_microseconds,
    to_months,
    to_time,
    to_varchar,
)
from tidemill.model.errors import BadValue, DataError, NullViolation, UnknownName
from tidemill.model.types import Field, Type
from tidemill.model.variants import decode_variant

__all__ = ["coerce", "coerce_row", "coercer", "in_order", "present", "presenter", "row_coercer"]

RowConverter = Callable[[Any], tuple[Any, ...]]


class _NoValues:
    """A type that no value has."""


_NEVER_INNER = (_NoValues, None, None)
"""In the place of an entry of ``INNER``: every value is converted."""


def coerce(
    value: Any,
    type_: Type,
    *,
    where: str = "",
    nullable: bool = True,
    length: int | None = None,
    char: int | None = None,
) -> Any:
    """The inner value of ``type_`` that ``value`` stands for; ``where`` names its place in the error if there is none.

    >>> coerce("9.5", t.Decimal(12, 2), where="orders.amount")
    Decimal('9.50')
    >>> coerce("2024-02-30", t.DATE, where="orders.day")
    Traceback (most recent call last):
    tidemill.model.errors.BadValue: '2024-02-30' is not a value of type DATE
      orders.day
    detail: day is out of range for month
    """
    try:
        return _place(type_, nullable, length, char)(value)
    except DataError as error:
        _locate(error, where)
        raise


@lru_cache(maxsize=1024)
def coercer(type_: Type) -> Converter:
    """The converter of ``type_``, for values that are not NULL; its errors do not say where."""
    match type_:
        case t.Decimal():
            return to_decimal(type_)
        case t.YearMonthInterval():
            return to_months(type_)
        case t.DayTimeInterval():
            return to_microseconds(type_)
        case t.Time():
            return to_time(type_)
        case t.Collated():
            return PLAIN[t.STRING]
        case t.Array(element):
            return _to_array(type_, element)
        case t.Map():
            return _to_map(type_)
        case t.Struct(fields):
            return _to_struct(type_, fields)
    return PLAIN[type_]


def coerce_row(row: Any, fields: Sequence[Field], table: str) -> tuple[Any, ...]:
    """The inner row of ``fields`` that a tuple, list or mapping stands for.

    A mapping goes by name, in any case; a nullable column may be left out.

    >>> coerce_row({"ID": 1}, (Field("id", t.BIGINT, nullable=False), Field("name", t.STRING)), "people")
    (1, None)
    """
    return row_coercer(tuple(fields), table)(row)


@lru_cache(maxsize=1024)
def row_coercer(fields: tuple[Field, ...], table: str) -> RowConverter:
    """The converter of whole rows of ``table``. It is built once; a row then costs one call for each value."""
    places = [(*INNER.get(f.type, _NEVER_INNER), _place(f.type, f.nullable, f.length, f.char)) for f in fields]
    width = len(places)

    def convert(row: Any) -> tuple[Any, ...]:
        values = row if type(row) is tuple and len(row) == width else in_order(row, fields, table)
        try:
            return tuple(
                [
                    value if type(value) is kind and first <= value <= last else place(value)
                    for value, (kind, first, last, place) in zip(values, places, strict=True)
                ]
            )
        except DataError:
            # Only a row that is refused pays for finding the column.
            return tuple([_value_of(field, value, table) for field, value in zip(fields, values, strict=True)])

    return convert


def in_order(row: Any, fields: Sequence[Field], where: str) -> Sequence[Any]:
    """The values of a tuple, list or mapping in the order of ``fields``; what a mapping leaves out is NULL."""
    if type(row) is not tuple:  # the usual row skips these tests
        if isinstance(row, Mapping):
            return _by_name(row, fields, where)
        if not isinstance(row, (tuple, list)):
            hint = "Give a tuple, a list or a dict."
            raise BadValue(f"a row cannot be of type {type(row).__name__}", where=where, hint=hint)
        # Spark's rows and named tuples have names, and their order need not be ours.
        names = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        if names:
            return _by_name(dict(zip(names, row, strict=True)), fields, where)
    if len(row) != len(fields):
        names = ", ".join(field.name for field in fields)
        raise BadValue(
            f"the row has {len(row)} values for {len(fields)} columns", where=where, detail=f"Columns: {names}"
        )
    return cast(Sequence[Any], row)


def _by_name(row: Mapping[Any, Any], fields: Sequence[Field], where: str) -> list[Any]:
    given = {str(name).lower(): value for name, value in row.items()}
    if len(given) < len(row):
        raise BadValue("the row names a column twice", where=where, detail=f"Names: {', '.join(map(str, row))}")
    values = [given.pop(field.name.lower(), None) for field in fields]
    if given:
        names = ", ".join(field.name for field in fields)
        raise UnknownName(f'there is no column "{next(iter(given))}"', where=where, detail=f"Columns: {names}")
    return values


def _value_of(field: Field, value: Any, table: str) -> Any:
    return coerce(
        value,
        field.type,
        where=f"{table}.{field.name}",
        nullable=field.nullable,
        length=field.length,
        char=field.char,
    )


def _place(type_: Type, nullable: bool, length: int | None = None, char: int | None = None) -> Converter:
    """The converter of a column that may hold NULL, or may not, and texts of any length, or of VARCHAR or CHAR."""
    convert = coercer(type_) if length is None else to_varchar(length) if char is None else to_char(char)

    def optional(value: Any) -> Any:
        return None if value is None else convert(value)

    def required(value: Any) -> Any:
        if value is None:
            raise NullViolation("NULL where a value is required")
        return convert(value)

    return optional if nullable else required


def _locate(error: DataError, where: str) -> None:
    """Prefix ``where`` to the location of the error: a path grows from the inside out."""
    error.where = f"{where}{error.where or ''}"


def present(value: Any, type_: Type) -> Any:
    """An inner value as ``rows()`` shows it: lists for arrays, dictionaries for structs, timedeltas for intervals of
    days and time, all else as it is.

    >>> present((1, 2), t.Array(t.INT))
    [1, 2]
    """
    show = presenter(type_)
    return value if value is None or show is None else show(value)


@lru_cache(maxsize=1024)
def presenter(type_: Type) -> Converter | None:
    """The function that shows values of ``type_``; None where they are shown as they are."""
    match type_:
        case t.DayTimeInterval():
            return _timedelta
        case t.Array(element):
            return lambda values: [present(value, element) for value in values]
        case t.Map(_, value):
            # Keys stay as they are inside: a list or a dictionary could not be a key of Python's.
            return lambda entries: {key: present(found, value) for key, found in entries}
        case t.Struct(fields):
            return lambda values: {f.name: present(v, f.type) for f, v in zip(fields, values, strict=True)}
        case t.Variant():
            return decode_variant
    return None


def _timedelta(micros: int) -> datetime.timedelta:
    return datetime.timedelta(microseconds=micros)


# ---- nested values ----


def _to_array(type_: Type, element: Type) -> Converter:
    place = _place(element, nullable=True)

    def convert(value: Any) -> ArrayValue:
        values = value.tolist() if is_numpy(value) else value
        if not isinstance(values, (list, tuple, ArrayTree)):
            refuse(value, type_)
        result = []
        for position, item in enumerate(values):
            try:
                result.append(place(item))
            except DataError as error:
                _locate(error, f"[{position}]")
                raise
        array: ArrayValue = as_array(result)
        return array

    return convert


def _to_map(type_: t.Map) -> Converter:
    place_key, place_value = _place(type_.key, nullable=False), _place(type_.value, nullable=True)

    def convert(value: Any) -> tuple[tuple[Any, Any], ...]:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if isinstance(pairs, str) or not isinstance(pairs, (list, tuple)):
            refuse(value, type_)
        result: dict[Any, Any] = {}
        for pair in pairs:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                refuse(value, type_, "An entry is a key and its value.")
            try:
                key, found = place_key(pair[0]), place_value(pair[1])
            except DataError as error:
                _locate(error, f"[{pair[0]!r}]")
                raise
            if key in result:
                refuse(value, type_, f"The key {key!r} is there twice.")
            result[key] = found
        return tuple(result.items())

    return convert


def _to_struct(type_: Type, fields: tuple[Field, ...]) -> Converter:
    places = [_place(field.type, field.nullable) for field in fields]

    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, (Mapping, list, tuple)):
            refuse(value, type_)
        result = []
        for field, place, item in zip(fields, places, in_order(value, fields, str(type_)), strict=True):
            try:
                result.append(place(item))
            except DataError as error:
                _locate(error, f".{field.name}")
                raise
        return tuple(result)

    return convert
