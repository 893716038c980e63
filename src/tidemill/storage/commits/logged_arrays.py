"""Large arrays in the log: whole once, and then as edits of an earlier array of the same log.

A row that is replaced stands in the log twice, as it was and as it is, and of a large array that is nearly all of the
record. Arrays are trees whose versions share nodes (``model/array_tree.py``), so an earlier version is found by a node
that both have, and what is written is where they differ. A log is always read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.model.array_tree import ArrayTree, as_array, shared_names, spliced, splices

MARK = "#array"
"""The only member of an object of JSON that stands for an array."""

KEPT = 256
"""Number of arrays of a log that later ones may be edits of."""

WORTH = 4
"""An array is written as edits if it has at least so many times as many elements as these."""


class LoggedArrays:
    """The arrays that a log has, by the nodes near their roots.

    ``referenced`` counts the elements of arrays that are there as edits.
    """

    def __init__(self) -> None:
        self.referenced = 0
        self._count = 0
        self._arrays: dict[int, ArrayTree] = {}
        self._numbers: dict[int, int] = {}
        """The number of the newest array with a node, by the identity of the node."""

    def encode(self, array: ArrayTree) -> dict[str, list[Any]]:
        """The array as JSON: its number, and either its elements or the number of another and where they differ."""
        base = next((self._numbers[name] for name in shared_names(array) if name in self._numbers), None)
        if base is None:
            return {MARK: [None, self._added(array), list(array)]}
        found = splices(self._arrays[base], array)
        if sum(1 + len(old) + len(new) for _, old, new in found) * WORTH > len(array):
            return {MARK: [None, self._added(array), list(array)]}
        self.referenced += len(array)
        edits = [[at, len(old), list(new)] for at, old, new in found]
        return {MARK: [base, self._added(array) if edits else base, edits]}

    def _added(self, array: ArrayTree) -> int:
        number, self._count = self._count, self._count + 1
        self._arrays[number] = array
        self._numbers.update(dict.fromkeys(shared_names(array), number))
        if len(self._arrays) > KEPT:
            gone = next(iter(self._arrays))
            for name in [name for name in shared_names(self._arrays.pop(gone)) if self._numbers.get(name) == gone]:
                del self._numbers[name]
        return number

    def clear(self) -> None:
        """Have none: all are written whole again."""
        self._arrays.clear()
        self._numbers.clear()


class ReadArrays:
    """The arrays of a log that is read from its beginning, by number."""

    def __init__(self) -> None:
        self._arrays: dict[int, Any] = {}

    def decode(self, found: dict[str, Any]) -> Any:
        """The array that an object of JSON stands for, with elements as they are in JSON; any other object as it is.

        >>> arrays = ReadArrays()
        >>> arrays.decode({MARK: [None, 0, [1, 2, 3]]}), arrays.decode({MARK: [0, 1, [[1, 1, [7, 8]]]]})
        ((1, 2, 3), (1, 7, 8, 3))
        """
        if len(found) != 1 or not _is_array(found.get(MARK)):
            return found
        base, number, rest = found[MARK]
        if base is None:
            array = as_array(rest)
        elif base in self._arrays:
            array = self._arrays[base]
            for at, removed, new in reversed(rest):  # from the end, so that places before stay what they are
                array = spliced(array, at, at + removed, tuple(new))
        else:
            return LOST
        self._arrays[number] = array
        return array


class _LostArray:
    """An array whose earlier version is in a record that cannot be read: so nothing of this record is used."""

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("the log has lost an array that a later one is an edit of")


LOST = _LostArray()


def _is_array(said: Any) -> bool:
    return (
        isinstance(said, list)
        and len(said) == 3
        and (said[0] is None or isinstance(said[0], int))
        and isinstance(said[1], int)
        and isinstance(said[2], list)
    )
