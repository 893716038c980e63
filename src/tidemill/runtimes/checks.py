"""What no change may do to a table, whichever runtime looks: remove a row that is not there, repeat a primary key."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import DuplicateKey, MissingRow
from tidemill.model.schema import Table

WeightOf = Callable[[Row], int]
RowsWith = Callable[[Row], Iterable[tuple[Row, int]]]


def check_change(table: Table, change: ZSet, weight_of: WeightOf, rows_with: RowsWith) -> None:
    """Refuse ``change`` where ``table`` cannot take it.

    ``weight_of`` says how often the table holds a row, ``rows_with`` which weighted rows it holds under a primary key.
    Both are asked only about rows and keys of the change, so the cost is O(|change|). An update (-old +new) is no
    duplicate, in whichever order its two rows come: the sum is judged.

    >>> from tidemill.model.types import BIGINT, Field
    >>> table = Table("t", (Field("id", BIGINT),), primary_key=("id",))
    >>> check_change(table, ZSet({(1,): -1}), weight_of=lambda row: 0, rows_with=lambda key: ())
    Traceback (most recent call last):
    tidemill.model.errors.MissingRow: a row leaves table "t" that is not there
      t (1,)
    """
    for row, weight in change.items():
        if weight < 0 and (held := weight_of(row)) + weight < 0:
            raise _missing(table, row, held, -weight)
    if table.primary_key:
        _check_keys(table, change, rows_with)


def _check_keys(table: Table, change: ZSet, rows_with: RowsWith) -> None:
    positions = table.key_positions()
    taken: dict[Row, Row] = {}
    for row, weight in change.items():
        if weight <= 0:
            continue
        key = tuple(row[position] for position in positions)
        if weight > 1 or key in taken:
            raise _duplicate(table, key, taken.get(key, row), row)
        for held, count in rows_with(key):
            # Of the rows that the table holds, those that this change takes away do not count.
            if count + (0 if held == row else change.weight(held)) > 0:
                raise _duplicate(table, key, held, row)
        taken[key] = row


def _missing(table: Table, row: Row, held: int, leaving: int) -> MissingRow:
    return MissingRow(
        f'a row leaves table "{table.name}" that is not there',
        where=f"{table.name} {row!r}",
        detail=f"It is to leave {leaving} times and is there {held} times." if held or leaving > 1 else None,
    )


def _duplicate(table: Table, key: Row, first: Row, second: Row) -> DuplicateKey:
    named = ", ".join(f"{column} = {value!r}" for column, value in zip(table.primary_key, key, strict=True))
    return DuplicateKey(
        f'table "{table.name}" would have two rows with the primary key {named}',
        where=f"{table.name} {first!r} and {second!r}",
        hint="Send the old row with weight -1 in the same epoch, or use UPDATE.",
    )
