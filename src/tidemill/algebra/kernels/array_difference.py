"""The elements that a change adds to arrays and takes from them, for loops that read nothing else of the arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.nested.arrays import numbered
from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.array_tree import ArrayTree, ArrayValue, Bounds, occurrences, splices


def array_difference(
    pairs: Sequence[WeightedRow], array: int, others: Sequence[int], *, numbers: bool = False
) -> Sequence[WeightedRow]:
    """The rows of a change, for a loop over the elements of the array at ``array`` that also reads ``others``.

    Where a row takes the place of one with the same values of ``others``, the elements that both have cancel out: the
    old row keeps those that leave, the new one those that come, in any order. Only large arrays are looked at; what
    their versions share costs nothing. With ``numbers`` every element comes with the number of equal ones before it.

    >>> from tidemill.model.array_tree import as_array, spliced
    >>> parts = as_array(range(1000))
    >>> array_difference([((7, parts), -1), ((7, spliced(parts, 3, 4, ("new",))), 1)], array=1, others=[0])
    [((7, (3,)), -1), ((7, ('new',)), 1)]
    """
    if not any(isinstance(row[array], ArrayTree) for row, _ in pairs):
        return [_numbered(pair, array) for pair in pairs] if numbers else pairs
    found: list[WeightedRow] = []
    for rows in _replacements(pairs, others).values():
        (old, _), (new, _) = sorted((rows[0], rows[-1]), key=itemgetter(1))
        if len(rows) == 2 and {weight for _, weight in rows} == {-1, 1} and None not in (old[array], new[array]):
            found += _difference(old, new, array, numbers)
        else:
            found += [_numbered(pair, array) for pair in rows] if numbers else rows
    return found


def _replacements(pairs: Sequence[WeightedRow], others: Sequence[int]) -> dict[Row, list[WeightedRow]]:
    """The rows of a change by the values that are read."""
    found: dict[Row, list[WeightedRow]] = {}
    for row, weight in pairs:
        found.setdefault(tuple([row[place] for place in others]), []).append((row, weight))
    return found


def _difference(old: Row, new: Row, array: int, numbers: bool) -> Iterator[WeightedRow]:
    """Two rows, each with the elements of its array that the other one does not have."""
    leaving, coming = Counter[Any](), Counter[Any]()
    for splice in splices(old[array], new[array]):
        leaving.update(splice.old)
        coming.update(splice.new)
    for row, weight, moved in ((old, -1, leaving - coming), (new, 1, coming - leaving)):
        if moved:
            elements = _last_numbers(row[array], moved) if numbers else moved.elements()
            yield _with(row, array, tuple(elements)), weight


def _last_numbers(array: ArrayValue, moved: Mapping[Any, int]) -> Iterator[tuple[Any, int]]:
    """Some copies of elements of an array as ``numbered`` has them: of equal ones the last, since these come and go."""
    for element, copies in moved.items():
        count = occurrences(array, element, order_key, _BOUNDS)
        yield from ((element, count - copy) for copy in range(1, copies + 1))


_BOUNDS: Bounds = Bounds()
"""The least and greatest elements of nodes of trees, so that equal elements of an array in order are found at once."""


def _numbered(pair: WeightedRow, array: int) -> WeightedRow:
    row, weight = pair
    return pair if row[array] is None else (_with(row, array, numbered(row[array])), weight)


def _with(row: Row, array: int, elements: tuple[Any, ...]) -> Row:
    return (*row[:array], elements, *row[array + 1 :])
