"""Functions that take a lambda: ``transform(prices, x -> x * 2)``.

The type of a lambda is that of its result; the front end has typed its parameters. A function whose lambda may also
take the position of an element is two functions here, so that parameters are not counted for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key, reduce
from itertools import starmap, zip_longest
from types import CodeType, FunctionType
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, always, expect_count
from tidemill.algebra.functions.nested.structs import element_of
from tidemill.model import types as t
from tidemill.model.array_tree import KNOWN_NODES, ArrayTree, ArrayValue, KnownNodes, as_array, mapped
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type


def transform(array: ArrayValue, change: Callable[[Any], Any]) -> ArrayValue:
    """Each element after ``change``."""
    if isinstance(array, ArrayTree):
        return _by_nodes(array, change, lambda items: tuple(map(change, items)))
    return tuple(map(change, array))


def transform_placed(array: ArrayValue, change: Callable[[Any, int], Any]) -> ArrayValue:
    """``change`` of each element and its position, counted from 0."""
    return tuple(change(element, place) for place, element in enumerate(array))


def keep(array: ArrayValue, test: Callable[[Any], Any]) -> ArrayValue:
    """FILTER: the elements for which ``test`` is true."""

    def kept(items: ArrayValue) -> tuple[Any, ...]:
        return tuple(element for element in items if test(element) is True)

    return _by_nodes(array, test, kept) if isinstance(array, ArrayTree) else kept(array)


def _by_nodes(
    array: ArrayTree, function: Callable[[Any], Any], of: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> ArrayValue:
    """``of`` every stretch of an array. A generated lambda that reads nothing but its element gives the same each time,
    so what it has given is kept for the nodes of the array, and of another version only new nodes are computed."""
    known = _known_nodes(function)
    found: ArrayValue = as_array(of(tuple(array))) if known is None else mapped(array, of, known)
    return found


def _known_nodes(function: Callable[[Any], Any]) -> KnownNodes | None:
    """Results of a lambda so far, kept beside its code; None if it may read more than its element."""
    if not isinstance(function, FunctionType) or function.__closure__ is not None:
        return None
    of_module: dict[CodeType, KnownNodes] | None = function.__globals__.get(KNOWN_NODES)
    return None if of_module is None else of_module.setdefault(function.__code__, KnownNodes())


def keep_placed(array: ArrayValue, test: Callable[[Any, int], Any]) -> ArrayValue:
    """FILTER with positions, counted from 0."""
    return tuple(element for place, element in enumerate(array) if test(element, place) is True)


def exists(array: ArrayValue, test: Callable[[Any], Any]) -> bool | None:
    """True if ``test`` is true for some element; NULL if it is for none and NULL for one. Stops at the first.

    >>> exists((1, None), lambda x: x is not None and x > 1), exists((), lambda x: True)
    (False, False)
    """
    return _decided(array, test, by=True)


def forall(array: ArrayValue, test: Callable[[Any], Any]) -> bool | None:
    """True if ``test`` is true for all elements; NULL if it is false for none and NULL for one."""
    return _decided(array, test, by=False)


def _decided(array: ArrayValue, test: Callable[[Any], Any], by: bool) -> bool | None:
    unknown = False
    for element in array:
        found: bool | None = test(element)
        if found is by:
            return by
        unknown = unknown or found is None
    return None if unknown else not by


def aggregate(array: ArrayValue, start: Any, merge: Callable[[Any, Any], Any], finish: Callable[[Any], Any]) -> Any:
    """``start`` merged with one element after the other, then finished."""
    return finish(reduce(merge, array, start))


def zip_with(one: ArrayValue, other: ArrayValue, merge: Callable[[Any, Any], Any]) -> ArrayValue:
    """``merge`` of the elements of both at the same position; the shorter one goes on with NULLs."""
    return tuple(starmap(merge, zip_longest(one, other)))


def sort_by(array: ArrayValue, compare: Callable[[Any, Any], int | None]) -> ArrayValue:
    """ARRAY_SORT: the elements in the order of ``compare``: negative where its first argument comes first."""

    def compared(one: Any, other: Any) -> int:
        order = compare(one, other)
        if order is None:
            raise ArithmeticFault("the comparison of ARRAY_SORT gave NULL", hint="Let it give 0 for equal elements.")
        return order

    return tuple(sorted(array, key=cmp_to_key(compared)))


def _over(result: Callable[[Type, Type], Type], wanted: Type | None = None) -> Inference:
    """An array and a lambda that gives ``wanted``; the type of the result from those of element and lambda."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 2)
        return (types[0], _given(types[1], wanted)), result(element_of(types[0]), types[1])

    return infer


def _given(type_: Type, wanted: Type | None) -> Type:
    if wanted is None or type_ == wanted:
        return type_
    if type_ == t.VOID:
        return wanted
    raise TypeMismatch(f"the lambda has to give {wanted}, not {type_}", hint="Convert it with CAST.")


def _aggregate_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    array, start, merged, finished = types
    element_of(array)
    given = start if _without_names(merged) == _without_names(start) else _given(merged, start)
    return (array, start, given, finished), finished


def _without_names(of: Type) -> Type:
    """A type with its members called by number: AGGREGATE does not mind what they are called."""
    match of:
        case t.Array(element):
            return t.Array(_without_names(element))
        case t.Map(key, value):
            return t.Map(_without_names(key), _without_names(value))
        case t.Struct(fields):
            return t.Struct(tuple(t.Field(str(n), _without_names(field.type)) for n, field in enumerate(fields)))
    return of


def _zip_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 3, 3)
    for array in types[:2]:
        element_of(array)
    return tuple(types), t.Array(types[2])


_transformed = _over(lambda element, given: t.Array(given))
_kept = _over(lambda element, given: t.Array(element), t.BOOLEAN)
_tested = _over(lambda element, given: t.BOOLEAN, t.BOOLEAN)

LAMBDAS = (
    Function("transform", _transformed, transform, "transform({args})", total=True),
    Function("transform_placed", _transformed, transform_placed, "transform({args})", total=True),
    Function("filter", _kept, keep, "filter({args})", total=True),
    Function("filter_placed", _kept, keep_placed, "filter({args})", total=True),
    Function("exists", _tested, exists, "exists({args})", null_when=always, total=True),
    Function("forall", _tested, forall, "forall({args})", null_when=always, total=True),
    Function("zip_with", _zip_types, zip_with, "zip_with({args})", total=True),
    Function(
        "aggregate",
        _aggregate_types,
        lambda array, *rest: None if array is None else aggregate(array, *rest),
        "aggregate({args})",
        strict=False,
        null_when=always,
        total=True,
    ),
    Function("sort_by", _over(lambda element, given: t.Array(element), t.INT), sort_by, "array_sort({args})"),
)
