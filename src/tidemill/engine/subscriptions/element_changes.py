"""Changes inside of a row: of structs the members, of arrays the elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayValue, splices
from tidemill.model.coerce import present
from tidemill.model.types import Field, Type

Path = tuple[str | int, ...]
"""A column, and then the names of members and the positions of elements, counted from 0."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ElementChange:
    """A value inside of the row with ``key`` that has changed, or an element that was inserted or removed.

    Positions are those of the array with the changes before this one already made: so changes are applied in order.
    """

    key: tuple[Any, ...]
    kind: Literal["change", "insert", "remove"]
    path: Path
    old: Any = None
    new: Any = None


def element_changes(key: tuple[Any, ...], old: Row, new: Row, fields: tuple[Field, ...]) -> Iterator[ElementChange]:
    """The differences of two versions of a row. Versions of a large array are compared at the cost of what they do not
    share.

    >>> fields = (Field("id", t.INT), Field("sizes", t.Array(t.INT)))
    >>> [(c.kind, c.path, c.old, c.new) for c in element_changes((1,), (1, (3, 5, 7)), (1, (3, 6, 7, 8)), fields)]
    [('change', ('sizes', 1), 5, 6), ('insert', ('sizes', 3), None, 8)]
    """
    for field, one, other in zip(fields, old, new, strict=True):
        for change in _inside((field.name,), one, other, field.type):
            yield replace(change, key=key)


def _inside(path: Path, old: Any, new: Any, of: Type) -> Iterator[ElementChange]:
    if old is new or old == new:
        return
    match of:
        case t.Array(element) if old is not None and new is not None:
            yield from _of_array(path, old, new, element)
        case t.Struct(fields) if old is not None and new is not None:
            for field, one, other in zip(fields, old, new, strict=True):
                yield from _inside((*path, field.name), one, other, field.type)
        case _:
            yield ElementChange((), "change", path, present(old, of), present(new, of))


def _of_array(path: Path, old: ArrayValue, new: ArrayValue, of: Type) -> Iterator[ElementChange]:
    moved = 0
    for splice in splices(old, new):
        place = splice.at + moved
        for one, other in zip_longest(splice.old, splice.new, fillvalue=_ABSENT):
            if one is _ABSENT:
                yield ElementChange((), "insert", (*path, place), None, present(other, of))
            elif other is _ABSENT:
                yield ElementChange((), "remove", (*path, place), present(one, of))
                continue
            else:
                yield from _inside((*path, place), one, other, of)
            place += 1
        moved += len(splice.new) - len(splice.old)
