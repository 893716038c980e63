"""The base of all relations, and functions that are computed once for each node.

Nodes are frozen, so what was computed of one stays right. It is found by identity: comparing or hashing a node costs a
walk over all that is below it, and a pass that asks at every node would walk the tree as often as it has nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import ref

from tidemill.model.types import Field

MemoKey = TypeVar("MemoKey")
MemoValue = TypeVar("MemoValue")


def memoized(function: Callable[[MemoKey], MemoValue]) -> Callable[[MemoKey], MemoValue]:
    """``function``, remembered for each node as long as the node lives. Its value must not hold the node itself.

    >>> from tidemill.algebra.relational.relations import Values
    >>> calls = []
    >>> size = memoized(lambda node: calls.append(node.rows) or len(node.rows))
    >>> node = Values(((1,), (2,)), ())
    >>> size(node), size(node), len(calls)
    (2, 2, 1)
    """
    known: dict[int, tuple[ref[Any], MemoValue]] = {}

    def found(node: MemoKey) -> MemoValue:
        key = id(node)
        entry = known.get(key)
        if entry is not None and entry[0]() is node:
            return entry[1]
        value = function(node)
        known[key] = (ref(node, lambda _: known.pop(key, None)), value)
        return value

    found.__doc__ = function.__doc__
    return found


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Relation(ABC):
    """A node of the algebra."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns of the result."""

    @property
    def has_one_row(self) -> bool:
        """Whether there is exactly one row, whatever the tables hold: a global aggregate has one. Errs towards no."""
        return False
