"""Maps as keys of groups: their entries in the order of their keys, which are equal where the maps are.

As in Spark a group by a map shows the map with its entries in that order.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Column, Lambda, Literal, Scalar
from tidemill.algebra.functions.nested.maps import entry_of
from tidemill.model.types import STRING, Array, Map, Struct, Type

Rebuild = Callable[[Scalar, Type, int], Scalar]
"""From a value, its type while it has maps, and how many lambdas stand around it, to the value in the other form."""

ELEMENT = "λentry"
"""The prefix of the element of an array in which maps are replaced: no column and no parameter has it."""


def holds_map(type_: Type) -> bool:
    """True if values of ``type_`` are maps, or have some in them.

    >>> from tidemill.model.types import INT
    >>> holds_map(Array(Map(STRING, INT))), holds_map(Array(INT))
    (True, False)
    """
    match type_:
        case Map():
            return True
        case Array(element):
            return holds_map(element)
        case Struct(fields):
            return any(holds_map(f.type) for f in fields)
    return False


def sorted_entries(value: Scalar) -> Scalar:
    """``value`` with the sorted array of its entries in place of each map in it.

    >>> from tidemill.algebra.evaluate import evaluate_scalar
    >>> from tidemill.model.types import INT
    >>> evaluate_scalar(sorted_entries(Literal((("b", 2), ("a", 1)), Map(STRING, INT))), {})
    (('a', 1), ('b', 2))
    """
    return _to_entries(value, value.type, 0)


def maps_of_entries(value: Scalar, type_: Type) -> Scalar:
    """The value of ``type_`` that ``sorted_entries`` made ``value`` of; its maps have their entries in order."""
    return _to_maps(value, type_, 0)


def _to_entries(value: Scalar, type_: Type, depth: int) -> Scalar:
    if isinstance(type_, Map):
        entries = call("map_entries", value)
        return call("array_sort", _rebuilt(entries, Array(entry_of(type_)), _to_entries, depth))
    return _rebuilt(value, type_, _to_entries, depth)


def _to_maps(value: Scalar, type_: Type, depth: int) -> Scalar:
    if isinstance(type_, Map):
        return call("map_from_entries", _rebuilt(value, Array(entry_of(type_)), _to_maps, depth))
    return _rebuilt(value, type_, _to_maps, depth)


def _rebuilt(value: Scalar, type_: Type, rebuild: Rebuild, depth: int) -> Scalar:
    """``value`` with its elements or members rebuilt, where they hold maps; a NULL stays NULL."""
    if isinstance(type_, Array) and holds_map(type_.element):
        assert isinstance(value.type, Array)
        element = Column(f"{ELEMENT}{depth}", value.type.element)
        return call("transform", value, Lambda((element,), rebuild(element, type_.element, depth + 1)))
    if isinstance(type_, Struct) and holds_map(type_):
        members: list[Scalar] = []
        for f in type_.fields:
            name = Literal(f.name, STRING)
            members += [name, rebuild(call("get_field", value, name), f.type, depth)]
        made = call("named_struct", *members)
        return Case(((call("is_null", value), Literal(None, made.type)),), made, made.type)
    return value
