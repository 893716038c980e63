"""Functions that make new arrays: set operations, slices, sequences. Positions count from 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from itertools import zip_longest
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.datetime.time import add_days, add_microseconds, add_months
from tidemill.algebra.functions.function import (
    Function,
    Inference,
    StrictParameter,
    always,
    expect,
    expect_all,
    expect_count,
)
from tidemill.algebra.functions.nested.structs import array_distinct, element_of
from tidemill.algebra.values.casts import microseconds
from tidemill.algebra.values.coercion import common_type, tightest_type
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree, ArrayValue, spliced
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.intervals import MICROSECONDS
from tidemill.model.types import Type

DAY = MICROSECONDS["DAY"]
MOST_ELEMENTS = 2**31 - 16
"""Spark's arrays are no longer than this."""


def array_position(array: ArrayValue, value: Any) -> int:
    """The first position of ``value``; 0 if it does not occur.

    >>> array_position((5, None, 7), 7), array_position((), 7)
    (3, 0)
    """
    sought = order_key(value)
    return next((place for place, element in enumerate(array, 1) if order_key(element) == sought), 0)


def array_remove(array: ArrayValue, value: Any) -> ArrayValue:
    """The elements that do not equal ``value``; NULLs stay."""
    unwanted = order_key(value)
    if isinstance(array, ArrayTree):
        found = [place for place, element in enumerate(array) if order_key(element) == unwanted]
        return reduce(lambda rest, place: spliced(rest, place, place + 1, ()), reversed(found), array)
    return tuple(element for element in array if order_key(element) != unwanted)


def array_union(one: ArrayValue, other: ArrayValue) -> ArrayValue:
    """The values of both, each once."""
    return array_distinct(one + other)


def array_intersect(one: ArrayValue, other: ArrayValue) -> ArrayValue:
    """The values of ``one`` that ``other`` has, too, each once; NULL equals NULL."""
    there = set(map(order_key, other))
    return tuple(element for element in array_distinct(one) if order_key(element) in there)


def array_except(one: ArrayValue, other: ArrayValue) -> ArrayValue:
    """The values of ``one`` that ``other`` does not have, each once; NULL equals NULL."""
    there = set(map(order_key, other))
    return tuple(element for element in array_distinct(one) if order_key(element) not in there)


def arrays_overlap(one: ArrayValue, other: ArrayValue) -> bool | None:
    """True if they share a value that is not NULL; NULL if a NULL might be such a value."""
    if any(element is not None for element in array_intersect(one, other)):
        return True
    return None if one and other and (None in one or None in other) else False


def array_repeat(value: Any, times: int | None) -> ArrayValue | None:
    """``value`` repeated ``times`` times; an empty array below zero."""
    return None if times is None else (value,) * times


def array_insert(array: ArrayValue, position: int, value: Any) -> Any:
    """``array`` with ``value`` at ``position``, which counts from the end where negative; NULLs fill a gap.

    >>> array_insert((1, 2), 4, 9), array_insert((1, 2), -1, 9)
    ((1, 2, None, 9), (1, 2, 9))
    """
    if position == 0:
        raise ArithmeticFault("ARRAY_INSERT counts from 1, or from -1 at the end; 0 is no position")
    if position > 0:
        missing, place = (None,) * (position - 1 - len(array)), min(position - 1, len(array))
        return spliced(array, place, place, (*missing, value))
    place = len(array) + position + 1
    if place < 0:
        return spliced(array, 0, 0, (value, *(None,) * -place))
    return spliced(array, place, place, (value,))


def cut(array: ArrayValue, start: int, length: int) -> ArrayValue:
    """SLICE: ``length`` elements from ``start`` on, which counts from the end where negative.

    >>> cut((1, 2, 3, 4), 2, 2), cut((1, 2, 3, 4), -2, 9), cut((1, 2), 5, 1)
    ((2, 3), (3, 4), ())
    """
    if start == 0 or length < 0:
        raise ArithmeticFault(
            f"SLICE cannot start at {start} and take {length}", detail="It counts from 1, or from -1 at the end."
        )
    first = start - 1 if start > 0 else start + len(array)
    return array[first : first + length] if first >= 0 else ()


def flatten(array: tuple[ArrayValue | None, ...]) -> ArrayValue | None:
    """The elements of all arrays in ``array``, one after the other; NULL where one of them is."""
    return None if None in array else tuple(element for inner in array if inner is not None for element in inner)


def numbered(array: ArrayValue) -> tuple[tuple[Any, int], ...]:
    """Each element with the number of equal ones before it: so every element is identified by value, not by position.

    >>> numbered(("a", "b", "a"))
    (('a', 0), ('b', 0), ('a', 1))
    """
    before: Counter[Any] = Counter()
    pairs = []
    for element in array:
        pairs.append((element, before[order_key(element)]))
        before[order_key(element)] += 1
    return tuple(pairs)


def array_sort(array: ArrayValue) -> ArrayValue:
    """The elements in ascending order, NULLs last."""
    present = sorted((element for element in array if element is not None), key=order_key)
    return (*present, *(None,) * (len(array) - len(present)))


def sequence(start: int, stop: int, step: int | None = None) -> ArrayValue:
    """The integers from ``start`` to ``stop``, both included.

    >>> sequence(1, 3), sequence(3, 1), sequence(0, 9, 4)
    ((1, 2, 3), (3, 2, 1), (0, 4, 8))
    """
    by = (1 if start <= stop else -1) if step is None else step
    if start == stop:
        return (start,)
    return tuple(range(start, stop + (1 if by > 0 else -1), _towards(start, stop, by)))


def moments(start: Any, stop: Any, months: int, days: int, micros: int) -> ArrayValue:
    """The dates or timestamps from ``start`` to ``stop``, each so many months, days and microseconds after the last.

    >>> [str(day) for day in moments(datetime(2024, 1, 31), datetime(2024, 3, 31), 1, 0, 0)]
    ['2024-01-31 00:00:00', '2024-02-29 00:00:00', '2024-03-31 00:00:00']
    """
    if start == stop:
        return (start,)
    step = (months * 28 + days) * DAY + micros
    passed: Callable[[Any], bool] = (lambda moment: moment > stop) if step > 0 else (lambda moment: moment < stop)
    _towards(start, stop, step)
    found: list[Any] = []
    moment = start
    while not passed(moment):
        found.append(moment)
        count = len(found)
        # Each is computed from the start: a month after the 29th of February is the 31st of March again.
        moment = _later(start, months * count, days * count, micros * count)
    return tuple(found)


def moments_by(types: Sequence[Type], start: Any, stop: Any, step: Any) -> ArrayValue:
    """As ``moments``, by an interval."""
    match types[2]:
        case t.YearMonthInterval():
            return moments(start, stop, step, 0, 0)
        case t.DayTimeInterval() if types[0] == t.DATE:
            if step % DAY:
                raise ArithmeticFault("a sequence of dates goes by whole days or months")
            return moments(start, stop, 0, step // DAY, 0)
        case t.DayTimeInterval():
            return moments(start, stop, 0, 0, step)
    return moments(start, stop, *step)


def _later(moment: Any, months: int, days: int, micros: int) -> Any:
    moved = add_days(add_months(moment, months), days)
    return add_microseconds(moved, micros) if isinstance(moved, datetime) and micros else moved


def _towards(start: Any, stop: Any, step: int) -> int:
    """``step``, which must lead from ``start`` to ``stop`` in a reasonable number of steps."""
    if step == 0 or (step > 0) != (start < stop):
        raise ArithmeticFault(f"SEQUENCE does not reach {stop} from {start}", hint="The step has to lead there.")
    if isinstance(start, int) and abs(stop - start) // abs(step) >= MOST_ELEMENTS:
        raise ArithmeticFault("SEQUENCE would be too long for an array")
    if isinstance(start, datetime) and abs(microseconds(stop) - microseconds(start)) // abs(step) >= MOST_ELEMENTS:
        raise ArithmeticFault("SEQUENCE would be too long for an array")
    return step


def _sets(gives: Type | None = None) -> Inference:
    """Two arrays, brought to one type."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        elements = {element_of(type_) for type_ in types} - {t.VOID}
        if len(elements) > 1 and any(map(t.holds_interval, elements)):
            raise TypeMismatch("arrays of intervals with different fields", hint="Convert one of them with CAST.")
        common = t.Array(common_type([element_of(type_) for type_ in types]))
        return (common, common), gives or common

    return infer


def _with_value(gives: Type | None = None) -> Inference:
    """An array and a value, brought to the type of its elements."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        common = tightest_type(element_of(types[0]), types[1])
        return (t.Array(common), common), gives or t.Array(common)

    return infer


def _same(*parameters: Type) -> Inference:
    """An array and then ``parameters``; gives an array of its type."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1 + len(parameters), 1 + len(parameters))
        element_of(types[0])
        return (types[0], *expect_all(types[1:], parameters)), types[0]

    return infer


def _flatten_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    inner = element_of(types[0])
    element_of(inner)
    return tuple(types), inner


def _repeat_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    return (types[0], expect(types[1], StrictParameter(t.INT))), t.Array(types[0])


def _sequence_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 3)
    common = common_type(types)
    if not isinstance(common, t.Integral):
        raise TypeMismatch(f"a sequence runs over integers, dates or timestamps, not over {common}")
    return (common,) * len(types), t.Array(common)


def _moment_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 3, 3)
    common, step = common_type(types[:2]), types[2]
    if not isinstance(step, t.AnsiInterval | t.CalendarInterval):
        raise TypeMismatch(f"a sequence of dates or timestamps goes by an INTERVAL, not by {step}")
    return (common, common, step), t.Array(common)


def _numbered_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    pair = t.Struct((t.Field("element", element_of(types[0])), t.Field("nth", t.BIGINT, nullable=False)))
    return tuple(types), t.Array(pair)


def _zip_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    members = tuple(t.Field(str(place), element_of(type_)) for place, type_ in enumerate(types))
    return tuple(types), t.Array(t.Struct(members))


def _inserted(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 3, 3)
    (array, value), of = _with_value()([types[0], types[2]])
    return (array, expect(types[1], StrictParameter(t.INT, (t.TINYINT, t.SMALLINT), null=False)), value), of


ARRAYS = (
    Function("array_position", _with_value(t.BIGINT), array_position, "array_position({args})", total=True),
    Function("array_remove", _with_value(), array_remove, "array_remove({args})", total=True),
    Function(
        "array_append",
        _with_value(),
        lambda array, value: None if array is None else spliced(array, len(array), len(array), (value,)),
        "array_append({args})",
        strict=False,
        null_when=lambda nullable: nullable[0],
        total=True,
    ),
    Function(
        "array_prepend",
        _with_value(),
        lambda array, value: None if array is None else spliced(array, 0, 0, (value,)),
        "array_prepend({args})",
        strict=False,
        null_when=lambda nullable: nullable[0],
        total=True,
    ),
    Function(
        "array_insert",
        _inserted,
        lambda array, position, value: (
            None if array is None or position is None else array_insert(array, position, value)
        ),
        "array_insert({args})",
        strict=False,
        null_when=lambda nullable: any(nullable[:2]),
    ),
    Function(
        "array_compact",
        _same(),
        lambda array: tuple(element for element in array if element is not None),
        "array_compact({0})",
        total=True,
    ),
    Function("array_union", _sets(), array_union, "array_union({args})", total=True),
    Function("array_intersect", _sets(), array_intersect, "array_intersect({args})", total=True),
    Function("array_except", _sets(), array_except, "array_except({args})", total=True),
    Function(
        "arrays_overlap", _sets(t.BOOLEAN), arrays_overlap, "arrays_overlap({args})", null_when=always, total=True
    ),
    Function(
        "array_repeat",
        _repeat_types,
        array_repeat,
        "array_repeat({args})",
        strict=False,
        null_when=lambda nullable: nullable[1],
    ),
    Function("slice", _same(t.INT, t.INT), cut, "slice({args})"),
    Function("flatten", _flatten_types, flatten, "flatten({0})", null_when=always, total=True),
    Function("array_sort", _same(), array_sort, "array_sort({0})", total=True),
    Function(
        "numbered",
        _numbered_types,
        numbered,
        "transform({0}, (e, i) -> named_struct("
        "'element', e, 'nth', CAST(size(filter(slice({0}, 1, i), f -> f <=> e)) AS BIGINT)))",
    ),
    Function("sequence", _sequence_types, sequence, "sequence({args})"),
    Function(
        "sequence_of_moments",
        _moment_types,
        moments_by,
        "sequence({args})",
        of_types=True,
    ),
    Function("arrays_zip", _zip_types, lambda *arrays: tuple(zip_longest(*arrays)), "arrays_zip({args})", total=True),
)
