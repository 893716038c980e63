"""Triggers that take one row at a time: each row sees the maps as the row before it left them.

A statement that recomputes its target may know the part that one row touches. That is summed before the row and after
it, and the target changes by the difference. A change of many rows may be cheaper to take as a whole: then the target
is recomputed once, at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.kernels.array_difference import array_difference
from tidemill.changes.zset import Row, WeightedRow
from tidemill.runtimes.native.python.access import Access, AccessForm
from tidemill.runtimes.native.state.table_lookup import group_by_columns

FEW_ROWS = 16
"""Number of changed rows up to which visiting the entries that each touches beats recomputing everything."""


def recomputes(rows: int, loops: bool, broken: bool) -> bool:
    """True if a change of so many rows is taken as a whole: its rows visit single entries, always or by a guard."""
    return rows > FEW_ROWS and (loops or broken)


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A query for one changed row, over maps that are updated in place; ``given`` has None for the change itself."""

    run: Callable[..., None]
    given: Sequence[tuple[Access, Any]]

    def add_to(self, sums: dict[Row, Any], pair: WeightedRow) -> None:
        """Add its results for a row."""
        self.run(sums, *[changed_rows((pair,), access) if rows is None else rows for access, rows in self.given])


@dataclass(frozen=True, slots=True)
class TouchedPart:
    """The part of ``target`` that a row touches: the sum of ``usual``, or of ``otherwise`` while a guard is broken."""

    target: str
    usual: Sequence[RowQuery]
    otherwise: Sequence[RowQuery]
    is_broken: Callable[[], bool]

    def add_to(self, sums: dict[Row, Any], pair: WeightedRow) -> None:
        """Add the part as it is now."""
        for query in self.otherwise if self.is_broken() else self.usual:
            query.add_to(sums, pair)


def take_rows(
    pairs: Sequence[WeightedRow],
    queries: Sequence[tuple[str, RowQuery]],
    parts: Sequence[TouchedPart],
    add: Callable[[Mapping[str, dict[Row, Any]]], None],
) -> None:
    """Run ``queries``, each with its target, for one row after the other; ``add`` adds sums to targets."""
    for pair in pairs:
        before: list[dict[Row, Any]] = [{} for _ in parts]
        for part, taken in zip(parts, before, strict=True):
            part.add_to(taken, pair)
        sums: dict[str, dict[Row, Any]] = {}
        for target, query in queries:
            query.add_to(sums.setdefault(target, {}), pair)
        # A target gets all of its terms at once: only their sum is a consistent state.
        moved = {part.target: sums.pop(part.target, {}) for part in parts}
        add(sums)
        for part, taken in zip(parts, before, strict=True):
            part.add_to(moved[part.target], pair)
            subtract(moved[part.target], taken)
        add(moved)


def changed_rows(pairs: Sequence[WeightedRow], access: Access) -> Any:
    """The rows of a change, all of them or by some of their columns, or with the elements of an array that differ."""
    if access.form in (AccessForm.ELEMENTS, AccessForm.NUMBERED):
        numbers = access.form is AccessForm.NUMBERED
        return array_difference(pairs, access.column, access.positions, numbers=numbers)
    return group_by_columns(pairs, access.positions) if access.form is AccessForm.INDEX else pairs


def subtract(sums: dict[Row, Any], taken: Mapping[Row, Any]) -> None:
    """Take sums out of others: weights, or lists of a weight and exact sums.

    >>> sums = {("a",): [2, 7]}
    >>> subtract(sums, {("a",): [1, 3], ("b",): [1, 5]})
    >>> sums
    {('a',): [1, 4], ('b',): [-1, -5]}
    """
    for key, amounts in taken.items():
        present = sums.get(key)
        if isinstance(amounts, list):
            sums[key] = [a - b for a, b in zip(present or [0] * len(amounts), amounts, strict=True)]
        else:
            sums[key] = (present or 0) - amounts
