"""The one form of arrays in a value of a type, however deep they are in it: tuples, and trees where they are long."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree, as_array
from tidemill.model.types import Type

ArrayForm = Callable[[Any], Any]
"""From a value that is not NULL to the same one with its arrays in the form that their lengths require."""


def array_form(type_: Type) -> ArrayForm | None:
    """The function that brings the arrays in values of ``type_`` into their form; None if there are none.

    >>> form = array_form(t.Array(t.Array(t.INT)))
    >>> [type(array).__name__ for array in form((tuple(range(1000)), (1,)))]
    ['ArrayTree', 'tuple']
    """
    return _form(type_) if isinstance(type_, t.Array | t.Map | t.Struct) else None


@lru_cache(maxsize=1024)
def _form(type_: Type) -> ArrayForm | None:
    match type_:
        case t.Array(element):
            return _of_array(array_form(element))
        case t.Map(key, value):
            return _of_map(array_form(key), array_form(value))
        case t.Struct(fields):
            return _of_struct([array_form(f.type) for f in fields])
    return None


def _of_array(form: ArrayForm | None) -> ArrayForm:
    if form is None:
        return as_array

    def formed(values: Any) -> Any:
        if isinstance(values, ArrayTree):
            return values  # made of elements that have their form
        return as_array(tuple([None if value is None else form(value) for value in values]))

    return formed


def _of_map(key: ArrayForm | None, value: ArrayForm | None) -> ArrayForm | None:
    if key is None and value is None:
        return None
    one, other = key or _same, value or _same
    return lambda entries: tuple([(one(k), None if v is None else other(v)) for k, v in entries])


def _of_struct(forms: list[ArrayForm | None]) -> ArrayForm | None:
    if not any(forms):
        return None
    return lambda values: tuple(
        [v if v is None or form is None else form(v) for form, v in zip(forms, values, strict=True)]
    )


def _same(value: Any) -> Any:
    return value
