"""The base of all relations, and memoization by node.

Nodes are frozen, so a memoized value stays valid. It is keyed by identity: comparing or hashing a node costs a walk
over its subtree, so a pass that asks at every node would be quadratic.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import ref

from tidemill.model.types import Field

MemoKey = TypeVar("MemoKey")
MemoValue = TypeVar("MemoValue")


def memoized(function: Callable[[MemoKey], MemoValue]) -> Callable[[MemoKey], MemoValue]:
    """``function``, memoized for each node as long as the node lives. Its value must not hold the node itself.

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
class Relation:
    """A node of the algebra.

    It is no ``ABC``, nor is ``Scalar``: the compiler asks of which class a node is more often than anything else, and
    the metaclass would make each answer several times as slow.
    """

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The columns of the result."""

    @property
    def has_one_row(self) -> bool:
        """True if there is exactly one row, whatever the tables hold, as of a global aggregate; conservative."""
        return False
