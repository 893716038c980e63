"""From a change, as ALTER TABLE says it, to the altered table."""

from __future__ import annotations

from tidemill.compiler.frontends.script import table_changes as change
from tidemill.engine.catalog.altered import bounds, columns, constraints
from tidemill.engine.catalog.altered.table import AlteredTable, field_of
from tidemill.model.schema import Table

__all__ = ["altered_table"]


def altered_table(table: Table, wanted: change.TableChange, *, is_empty: bool) -> AlteredTable:
    """``table`` after a change; refused if a key, a check or its partitions do not allow it."""
    match wanted:
        case change.AddColumns():
            return columns.with_columns(table, wanted, is_empty)
        case change.DropColumns(names, if_exists):
            return columns.without_columns(table, names, if_exists)
        case change.RenameColumn(column, to):
            return columns.with_renamed(table, column, to)
        case change.MoveColumn(column, place):
            return columns.with_moved(table, column, place)
        case change.SetType(column, field):
            return columns.with_type(table, field_of(table, column), field)
        case change.SetNullable(column, nullable):
            return columns.with_nullability(table, field_of(table, column), nullable)
        case change.SetDefault(column, text):
            return columns.with_default(table, field_of(table, column), text)
        case change.SetPrimaryKey(key):
            return constraints.with_key(table, key)
        case change.AddConstraint(declared):
            return constraints.with_constraint(table, declared)
        case change.DropConstraint(name, if_exists):
            return constraints.without_constraint(table, name, if_exists)
        case change.SetBound(word, length):
            return bounds.with_bound(table, word, length)
