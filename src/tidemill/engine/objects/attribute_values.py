"""Values of attributes converted to their stored form: types converted, elements sorted, enum names resolved."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.model.array_tree import ArrayTree, ArrayValue, as_array, spliced
from tidemill.model.classes import Attribute, Collection
from tidemill.model.coerce import coerce
from tidemill.model.errors import BadValue, NullViolation

__all__ = [
    "attribute_value",
    "collection_element",
    "collection_elements",
    "has_element",
    "normalize_elements",
    "with_element",
    "without_element",
]


def attribute_value(attribute: Attribute, value: Any, where: str) -> Any:
    """The stored value of an attribute. References are not checked here; the caller knows the objects."""
    return (
        collection_elements(attribute, value, where)
        if attribute.collection is not None
        else _one(attribute, value, where)
    )


def collection_element(attribute: Attribute, value: Any, where: str) -> Any:
    """The stored value of an element of a collection."""
    if value is None:
        raise NullViolation("a collection has no NULL among its elements", where=where)
    return _one(attribute, value, where)


def collection_elements(attribute: Attribute, values: Any, where: str) -> Any:
    """The stored elements of a collection; None is the empty collection."""
    if values is None:
        return ()
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadValue(
            f"{values!r} is no collection",
            where=where,
            detail=f'Attribute "{attribute.name}" is a {_kind(attribute).value}.',
            hint="Give a list.",
        )
    return normalize_elements(
        attribute, [collection_element(attribute, value, f"{where}[{i}]") for i, value in enumerate(values)]
    )


def normalize_elements(attribute: Attribute, elements: Iterable[Any]) -> Any:
    """Elements in stored order: sorted, except in lists; duplicates removed in sets.

    >>> from tidemill.model.types import BIGINT
    >>> normalize_elements(Attribute("xs", BIGINT, collection=Collection.SET), [3, 1, 3])
    (1, 3)
    """
    match _kind(attribute):
        case Collection.LIST:
            return as_array(elements)
        case Collection.SET:
            return as_array(sorted(set(elements), key=_rank))
        case Collection.BAG:
            return as_array(sorted(elements, key=_rank))


def with_element(attribute: Attribute, held: ArrayValue, element: Any, at: int | None = None) -> Any:
    """Stored elements and one more: at its place in the order, or in a list at ``at`` or at the end.

    >>> from tidemill.model.types import BIGINT
    >>> with_element(Attribute("xs", BIGINT, collection=Collection.BAG), (1, 3), 2)
    (1, 2, 3)
    """
    if _kind(attribute) is Collection.LIST:
        place = len(held) if at is None else slice(at, None).indices(len(held))[0]
        return spliced(held, place, place, (element,))
    if _kind(attribute) is Collection.SET and has_element(attribute, held, element):
        return held
    place = bisect_right(held, _rank(element), key=_rank)
    return spliced(held, place, place, (element,))


def without_element(attribute: Attribute, held: ArrayValue, element: Any) -> Any:
    """Stored elements without the first one that equals ``element``, which must be there."""
    place = held.index(element) if _kind(attribute) is Collection.LIST else bisect_left(held, _rank(element), key=_rank)
    return spliced(held, place, place + 1, ())


def has_element(attribute: Attribute, held: ArrayValue, element: Any) -> bool:
    """True if ``element`` is one of the stored elements; of those in order it is found in O(log n)."""
    if _kind(attribute) is Collection.LIST:
        return element in held
    rank = _rank(element)
    place = bisect_left(held, rank, key=_rank)
    return place < len(held) and bool(_rank(held[place]) == rank)


def _kind(attribute: Attribute) -> Collection:
    assert attribute.collection is not None
    return attribute.collection


def _rank(value: Any) -> Any:
    """Sort key with the order of Spark's arrays: NaN is above all numbers, and structs go member by member."""
    if isinstance(value, tuple | ArrayTree):
        return order_key(value)
    return (True, 0) if value != value else (False, value)


def _one(attribute: Attribute, value: Any, where: str) -> Any:
    inner = coerce(value, attribute.type, where=where)
    if inner is not None and attribute.among and inner not in attribute.among:
        raise BadValue(
            f'"{inner}" is no value of attribute "{attribute.name}"',
            where=where,
            hint=f"Use one of {', '.join(attribute.among)}.",
        )
    return inner
