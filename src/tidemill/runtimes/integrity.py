"""Changes that a table refuses: a deleted row that does not exist, a violated constraint, an overflow of a weight."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import (
    AppendOnlyViolation,
    ArithmeticFault,
    CheckViolation,
    DanglingReference,
    DuplicateKey,
    MissingRow,
    TextLocation,
)
from tidemill.model.schema import LARGEST_WEIGHT, Table
from tidemill.program.constraints import CheckCondition, ForeignKey, UniqueKey

SAFE_WEIGHT = 1 << 32
"""Weight up to which no sum is checked for overflow: reaching the limit would take billions of epochs."""

WeightOf = Callable[[Row], int]
"""The weight with which a table holds a row."""

RowsUnderKey = Callable[[Row], Iterable[tuple[Row, int]]]
"""The weighted rows that a table holds under a primary key."""

WeightsByKey = Callable[[str, tuple[int, ...], Collection[Row]], Mapping[Row, int]]


def check_change(table: Table, change: ZSet, weight_of: WeightOf, rows_with: RowsUnderKey) -> None:
    """Refuse ``change`` if ``table`` cannot take it.

    ``weight_of`` gives the weight of a row in the table, ``rows_with`` the weighted rows under a primary key. Both are
    called only with rows and keys of the change, so the cost is O(|change|). An update (-old +new) is no duplicate, in
    whichever order its two rows come: only the sum is checked.

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
        if weight > SAFE_WEIGHT:
            require_countable(weight_of(row) + weight, f"{table.name} {row!r}")
    if table.primary_key:
        _check_keys(table, change, rows_with)


def check_append_only(table: Table, change: ChangeSet) -> None:
    """Refuse a change that deletes rows of a table that is APPEND ONLY, or updates them.

    >>> from tidemill.model.types import BIGINT, Field
    >>> table = Table("t", (Field("id", BIGINT),), append_only=True)
    >>> check_append_only(table, ChangeSet.of([((1,), 1), ((2,), -1)], table.fields))
    Traceback (most recent call last):
    tidemill.model.errors.AppendOnlyViolation: a row cannot leave "t", which is APPEND ONLY
      t (2,)
    detail: Views over it keep nothing that only deletions need; an update deletes the old row.
    hint: Send new rows only, or create the table without APPEND ONLY.
    """
    if not change.has_deletions():
        return
    row = next(row for row, weight in change.pairs() if weight < 0)
    raise not_appended(table, f"{table.name} {row!r}")


def not_appended(table: Table, where: TextLocation | str) -> AppendOnlyViolation:
    """The error for a deletion or update of rows of a table that is APPEND ONLY."""
    return AppendOnlyViolation(
        f'a row cannot leave "{table.name}", which is APPEND ONLY',
        where=where,
        detail="Views over it keep nothing that only deletions need; an update deletes the old row.",
        hint=f"Send new rows only, or create the {'table' if table.kept else 'stream'} without APPEND ONLY.",
    )


def require_countable(weight: int, where: str) -> None:
    """Refuse a row or group that would occur more often than 64 bits can count.

    >>> require_countable(1 << 63, "t (1,)")
    Traceback (most recent call last):
    tidemill.model.errors.ArithmeticFault: a row would occur 9,223,372,036,854,775,808 times
      t (1,)
    detail: A row can occur up to 9,223,372,036,854,775,807 times.
    """
    if not -LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
        raise ArithmeticFault(
            f"a row would occur {weight:,} times",
            where=where,
            detail=f"A row can occur up to {LARGEST_WEIGHT:,} times.",
        )


def _check_keys(table: Table, change: ZSet, rows_with: RowsUnderKey) -> None:
    positions = table.key_positions
    taken: dict[Row, Row] = {}
    for row, weight in change.items():
        if weight <= 0:
            continue
        key = tuple(row[position] for position in positions)
        if weight > 1 or key in taken:
            raise _duplicate(table, key, taken.get(key, row), row)
        for held, count in rows_with(key):
            # Rows of the table that this change deletes do not count.
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
    return DuplicateKey(
        f'table "{table.name}" would have two rows with the primary key {_named(table.primary_key, key)}',
        where=f"{table.name} {first!r} and {second!r}",
        hint="Send the old row with weight -1 in the same epoch, or use UPDATE.",
    )


# -- constraints ------------------------------------------------------------------------------------------------------


def check_violated(condition: CheckCondition, row: Row) -> CheckViolation:
    """The error for a row that violates a CHECK."""
    table, check = condition.table, condition.check
    return CheckViolation(
        f'a row of "{table.name}" violates "{check.name}"',
        where=f"{table.name} {row!r}",
        detail=f"CHECK ({check.text}) is false.",
    )


def check_unique(key: UniqueKey, change: ZSet, held: WeightsByKey) -> None:
    """Refuse an epoch after which two rows of a table agree in columns that are UNIQUE.

    ``change`` is the summed change of the table, and ``held`` as for foreign keys. A row that takes the place of
    another one with its values adds nothing on balance, so only keys of which more rows come than leave are looked up.
    """
    coming = {value: count for value, count in count_by_key(change, key.places).items() if count > 0}
    found = held(key.table.name, key.places, coming) if coming else {}
    for value, count in coming.items():
        if found.get(value, 0) + count > 1:
            raise duplicate_value(key, value)


def duplicate_value(key: UniqueKey, value: Row) -> DuplicateKey:
    """The error for a second row with the same values of columns that are UNIQUE."""
    name, columns = key.table.name, key.constraint.columns
    return DuplicateKey(
        f'a row of "{name}" violates "{key.constraint.name}": two rows would have {_named(columns, value)}',
        where=f"{name} {_named(columns, value)}",
        detail=f"UNIQUE ({', '.join(columns)}).",
        hint="Take the other row out in the same epoch, or before.",
    )


def check_foreign_key(key: ForeignKey, changes: Mapping[str, ZSet], held: WeightsByKey) -> None:
    """Refuse an epoch after which a row of the child would reference no row of the parent.

    ``changes`` are the summed changes of the epoch, ``held(table, places, keys)`` gives the number of rows that a table
    holds under each of some keys before it. Inserted rows must find their parent and deleted parents must have no
    children in the state after the whole epoch: the order within it does not matter, and references may be cyclic. Only
    keys of the change are looked up, so the cost is O(|change|).
    """
    children, parents = changes.get(key.child.name, _NOTHING), changes.get(key.parent.name, _NOTHING)
    moved = count_by_key(parents, key.parent_places)
    coming = zip(_keys(children, key.child_places), children, children.values(), strict=True)
    arriving = {named: row for named, row, weight in coming if weight > 0 and None not in named}
    unknown = {named for named in arriving if not moved.get(named)}
    found = held(key.parent.name, key.parent_places, unknown) if unknown and not key.absent else {}
    for named, row in arriving.items():
        # A primary key has at most one row, so an inserted one exists after the epoch, and a deleted one does not.
        if (moved.get(named) or found.get(named, 0)) <= 0:
            raise missing_parent(key, row, named)
    left = {named for named, weight in moved.items() if weight < 0}
    if left:
        _check_left(key, left, children, held)


def _check_left(key: ForeignKey, left: Collection[Row], children: ZSet, held: WeightsByKey) -> None:
    """Refuse to delete parents that a child still references after the epoch."""
    moved = count_by_key(children, key.child_places)
    for named, count in held(key.child.name, key.child_places, left).items():
        if count + moved.get(named, 0) > 0:
            raise parent_still_referenced(key, named, count + moved.get(named, 0))


def count_by_key(rows: Mapping[Row, int], places: Sequence[int]) -> dict[Row, int]:
    """The net number of rows inserted under each key; a key with a NULL is left out."""
    totals: dict[Row, int] = {}
    for key, weight in zip(_keys(rows, places), rows.values(), strict=True):
        if None not in key:
            totals[key] = totals.get(key, 0) + weight
    return totals


def _keys(rows: Iterable[Row], places: Sequence[int]) -> Iterator[Row]:
    """The key of each row."""
    return zip(*(map(itemgetter(place), rows) for place in places), strict=True)


def missing_parent(key: ForeignKey, row: Row, named: Row) -> DanglingReference:
    """The error for a row that references no row of the parent."""
    return DanglingReference(
        f'a row of "{key.child.name}" violates "{key.reference.name}": '
        f'"{key.parent.name}" has no row with {_named(key.parent.primary_key, named)}',
        where=f"{key.child.name} {row!r}",
        detail=f'There is no table "{key.parent.name}" yet.' if key.absent else None,
        hint="Send the row that it names in the same epoch, or before.",
    )


def parent_still_referenced(key: ForeignKey, named: Row, children: int) -> DanglingReference:
    """The error for a deleted row of the parent that is still referenced."""
    rows = "1 row names" if children == 1 else f"{children} rows name"
    return DanglingReference(
        f'a row cannot leave "{key.parent.name}": it would violate "{key.reference.name}" of "{key.child.name}"',
        where=f"{key.parent.name} {_named(key.parent.primary_key, named)}",
        detail=f"{rows} it by {', '.join(key.child_columns)}.",
        hint=f'Take these rows of "{key.child.name}" out in the same epoch, or before.',
    )


def _named(columns: Sequence[str], key: Row) -> str:
    return ", ".join(f"{column} = {value!r}" for column, value in zip(columns, key, strict=True))


_NOTHING = ZSet()
