"""INSERT, UPDATE and DELETE: rows found by a query, applied as one epoch."""

from __future__ import annotations

from typing import Any

from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.translate import translate_delete, translate_insert, translate_update
from tidemill.engine.engine import Engine
from tidemill.engine.partitions.late_replay import late_change_count
from tidemill.engine.results import Result
from tidemill.engine.statements.dml.upsert import overwriting, upserted_rows
from tidemill.engine.statements.queries.clock import now
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import NullViolation, UnknownName
from tidemill.model.schema import Table
from tidemill.runtimes.integrity import not_appended

__all__ = ["apply_deleted", "apply_rows", "apply_updated", "delete", "insert", "kept_table", "update"]


def insert(engine: Engine, statement: sql.Insert) -> Result:
    """Add the rows of a query or of VALUES."""
    if statement.overwrite or statement.conflict is not None:
        table = kept_table(engine, statement.table, statement, appended=not statement.replaces)
    else:
        table = engine.catalog.table(engine.rights.require(statement.table))
    relation = translate_insert(statement, table, engine.rights.relations, engine.named, now())
    if statement.overwrite:
        with engine.settled():
            return apply_rows(engine, table, overwriting(engine, table, engine.answer(relation).pairs()))
    if statement.conflict is not None:
        with engine.settled():
            return apply_rows(engine, table, upserted_rows(engine, table, statement.conflict, relation))
    return apply_rows(engine, table, engine.answer(relation).pairs())


def update(engine: Engine, statement: sql.Update) -> Result:
    """Replace each row that matches by its new form."""
    table = kept_table(engine, statement.table, statement)
    return apply_updated(engine, table, translate_update(statement, table, engine.rights.relations, engine.named))


def apply_updated(engine: Engine, table: Table, relation: Relation) -> Result:
    """Replace rows by others: ``relation`` has the old columns of each, followed by the new ones."""
    width = len(table.fields)
    pairs = []
    for row, weight in engine.answer(relation).pairs():
        pairs += [(row[:width], -weight), (row[width:], weight)]
    return apply_rows(engine, table, pairs)


def delete(engine: Engine, statement: sql.Delete) -> Result:
    """Delete each row that matches."""
    table = kept_table(engine, statement.table, statement)
    return apply_deleted(engine, table, translate_delete(statement, table, engine.rights.relations, engine.named))


def apply_deleted(engine: Engine, table: Table, relation: Relation) -> Result:
    """Delete the rows of a query."""
    return apply_rows(engine, table, [(row, -weight) for row, weight in engine.answer(relation).pairs()])


def apply_rows(engine: Engine, table: Table, pairs: list[tuple[Any, int]]) -> Result:
    """Apply changes of rows to a table, as one epoch."""
    required = [(i, f.name) for i, f in enumerate(table.fields) if not f.nullable]
    for row, weight in pairs:
        for position, column in required:
            if weight > 0 and row[position] is None:
                raise NullViolation(f'column "{column}" of "{table.name}" cannot be NULL', where=f"{table.name} {row}")
    if any(f.length is not None for f in table.fields):
        fit = row_coercer(table.fields, table.name)
        pairs = [(fit(row), weight) for row, weight in pairs]
    pending = engine.transactions.mine()
    epoch = engine.change({table.name: ChangeSet.of(pairs, table.fields)})
    come = sum(weight for _, weight in pairs if weight > 0)
    left = sum(-weight for _, weight in pairs if weight < 0)
    changes = "1 row change" if come + left == 1 else f"{come + left:,} row changes"
    if pending is not None:
        return Result(message=f"{changes}, not committed yet", changed=come or left)
    late = late_change_count(engine.store, table, epoch)
    told = f", {late:,} of them late" if late else ""
    return Result(message=f"{changes} in epoch {epoch}{told}", changed=come or left)


def kept_table(engine: Engine, name: str, statement: sql.Statement, *, appended: bool = False) -> Table:
    """The table of that name, if its rows are kept and can be changed, or are just ``appended``."""
    table = engine.catalog.table(engine.rights.require(name))
    if engine.catalog.is_in_lake(name):
        raise engine.catalog.lakes[name].not_changed_here()
    if not table.kept:
        raise UnknownName(
            f'"{name}" is a stream',
            where=statement.place,
            detail="Its rows are not kept, so none can be found.",
            hint="Give the old rows with weight -1 to apply().",
        )
    if table.append_only and not appended:
        raise not_appended(table, statement.place)
    return table
