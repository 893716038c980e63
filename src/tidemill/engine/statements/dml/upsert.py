"""Rows that replace those with their primary key: ON CONFLICT, ``upsert``, ``delete``; and those that replace all.

All callers hold the lock of the warehouse, so that what is read here is what is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.conflict_clause import ConflictClause
from tidemill.compiler.frontends.translate_conflict import PAIRS, pair_fields, translate_conflict
from tidemill.engine.engine import Engine
from tidemill.engine.statements.queries.clock import now
from tidemill.model.errors import DuplicateKey, Unsupported
from tidemill.model.schema import Table

__all__ = ["deleted_by_key", "overwriting", "require_key", "upserted_changes", "upserted_rows"]

WeightedRows = list[tuple[Row, int]]


def upserted_rows(engine: Engine, table: Table, clause: ConflictClause, given: Relation) -> WeightedRows:
    """The change that INSERT ... ON CONFLICT makes with the rows of ``given``."""
    require_key(table, "ON CONFLICT", where=clause.place)
    if clause.key is not None and set(clause.key) != set(table.primary_key):
        raise Unsupported(
            f'a conflict is one of the primary key of "{table.name}"',
            where=clause.place,
            hint=f"Write ON CONFLICT ({', '.join(table.primary_key)}), or leave the columns out.",
        )
    update = translate_conflict(clause, table, engine.rights.relations, engine.named, now()) if clause.updates else None
    new = _by_key(table, engine.answer(given).pairs())
    old = engine.allowed.find(table, new.keys())
    inserted = [(row, 1) for key, row in new.items() if key not in old]
    if update is None or not old:
        return inserted
    pairs = [((*there, *new[key]), 1) for key, rows in old.items() for there in rows]
    changed = engine.allowed.answer_given(update, {PAIRS: ChangeSet.of(pairs, pair_fields(table))})
    width, total = len(table.fields), ZSet()
    for row, weight in changed.pairs():
        total.update_by(ZSet.summed([(row[:width], -weight), (row[width:], weight)]))
    return [*inserted, *total.items()]


def upserted_changes(engine: Engine, table: Table, change: ChangeSet) -> ChangeSet:
    """The change after which the table has the rows of ``change``, instead of those with their keys.

    A row with a negative weight deletes the row with its key, unless another row of ``change`` takes its place. Rows
    that are there already are not changed.
    """
    require_key(table, "upsert")
    pairs = change.pairs()
    new = _by_key(table, [pair for pair in pairs if pair[1] > 0])
    leaving = {_key(table, row) for row, weight in pairs if weight < 0}
    return _replacing(engine, table, new, leaving | new.keys())


def deleted_by_key(engine: Engine, table: Table, keys: Iterable[Row]) -> ChangeSet:
    """The change that deletes the rows with these keys; keys that are not there delete nothing."""
    require_key(table, "delete")
    return _replacing(engine, table, {}, set(keys))


def overwriting(engine: Engine, table: Table, rows: WeightedRows) -> WeightedRows:
    """The difference between these rows and those of the table."""
    found = ZSet.summed(rows)
    found.update_by(ZSet.summed((row, -weight) for row, weight in engine.contents(table.name).pairs()))
    return list(found.items())


def require_key(table: Table, what: str, *, where: object = None) -> None:
    """Refuse a table whose rows cannot be told apart, or are not kept."""
    if not table.primary_key or not table.kept:
        raise Unsupported(
            f"{what} needs a table with a primary key",
            where=where or table.name,  # type: ignore[arg-type]
            detail=f'"{table.name}" is a stream.' if not table.kept else f'"{table.name}" has no PRIMARY KEY.',
            hint="Without one, give the old rows with weight -1 to apply().",
        )


def _replacing(engine: Engine, table: Table, new: Mapping[Row, Row], keys: set[Row]) -> ChangeSet:
    """The change from the rows that have ``keys`` to those in ``new``."""
    total = ZSet.summed((row, 1) for row in new.values())
    old = engine.allowed.find(table, keys)
    total.update_by(ZSet.summed((row, -1) for rows in old.values() for row in rows))
    return ChangeSet.of(total.items(), table.fields)


def _by_key(table: Table, pairs: WeightedRows) -> dict[Row, Row]:
    """The rows by primary key; two that are equal count as one, and others of one key are refused."""
    found: dict[Row, Row] = {}
    for row, _ in pairs:
        key = _key(table, row)
        if found.setdefault(key, row) != row:
            raise DuplicateKey(
                f"two of the rows have the primary key {key}",
                where=table.name,
                detail="Nothing says which of them is the later.",
                hint="Give one row for each key, by GROUP BY or ROW_NUMBER for instance.",
            )
    return found


def _key(table: Table, row: Row) -> Row:
    return tuple([row[position] for position in table.key_positions])
