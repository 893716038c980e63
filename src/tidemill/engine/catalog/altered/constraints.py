"""Constraints of a table that come and go, and those that hold its columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.script.definitions.check_conditions import check_condition
from tidemill.compiler.frontends.script.definitions.constraints import (
    declared_constraints,
    read_constraints,
    read_primary_key,
)
from tidemill.compiler.frontends.script.definitions.create_table import declaration_of, table_name
from tidemill.compiler.frontends.sql.expressions.intervals import format_period
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.engine.catalog.altered.table import AlteredTable, Constraint, field_of
from tidemill.model.errors import Unsupported
from tidemill.model.schema import CheckConstraint, ReferentialConstraint, Table, UniqueConstraint

__all__ = ["require_unbound", "with_constraint", "with_key", "without_constraint"]


def with_key(table: Table, columns: tuple[str, ...]) -> AlteredTable:
    """``table`` with a primary key, or without one; another one is a DROP and an ADD."""
    if not table.kept:
        raise Unsupported(
            f'"{table.name}" cannot have a primary key',
            detail="Its rows are not kept, so none can be compared with them.",
        )
    if columns and table.primary_key:
        raise Unsupported(
            f'"{table.name}" has a primary key already',
            detail=f"It is ({', '.join(table.primary_key)}).",
            hint=f"ALTER TABLE {table.name} DROP PRIMARY KEY first.",
        )
    open_ = tuple(name for name in columns if field_of(table, name).nullable)
    fields = tuple(replace(f, nullable=False) if f.name in columns else f for f in table.fields)
    return AlteredTable(table, replace(table, fields=fields, primary_key=columns), required=open_, key=columns)


def with_constraint(table: Table, declared: ParsedText) -> AlteredTable:
    """``table`` with one more constraint, as a declaration of a table has it."""
    source = declared.source
    found = declared_constraints(declaration_of(declared.node, source))
    key = read_primary_key(found, table.fields, source)
    if key:
        return with_key(table, key)
    known = [one.name for one in _named(table)]
    read = read_constraints(table, found, source, table_name, known)
    changed = replace(
        table,
        checks=(*table.checks, *read.checks),
        references=(*table.references, *read.references),
        uniques=(*table.uniques, *read.uniques),
    )
    return AlteredTable(table, changed, constraints=tuple(one for one in _named(read) if one.enforced))


def without_constraint(table: Table, name: str, if_exists: bool) -> AlteredTable:
    """``table`` without the constraint of a name; its primary key is called as ``information_schema`` does."""
    if table.primary_key and name == f"{table.name}_pkey":
        return with_key(table, ())
    known = [one.name for one in _named(table)]
    if name not in known and not if_exists:
        raise unknown_name(f'constraint of "{table.name}" called', name, known)
    changed = replace(
        table,
        checks=tuple(check for check in table.checks if check.name != name),
        references=tuple(reference for reference in table.references if reference.name != name),
        uniques=tuple(unique for unique in table.uniques if unique.name != name),
    )
    return AlteredTable(table, changed)


def _named(table: Table) -> tuple[Constraint, ...]:
    return (*table.checks, *table.references, *table.uniques)


def require_unbound(table: Table, column: str, done: str) -> None:
    """Refuse a column that a key, a check or the partitions of its table need, with what to do first."""
    bound = hint = None
    drop = f"ALTER TABLE {table.name} DROP"
    if column in table.primary_key:
        bound, hint = "It is part of the primary key.", f"{drop} PRIMARY KEY first."
    for constraint in _named(table):
        if bound is None and column in _columns_of(table, constraint):
            bound, hint = _as_bound(constraint), f"{drop} CONSTRAINT {constraint.name} first."
    cut = table.partitioning
    if bound is None and cut is not None and cut.column == column:
        bound = f"The table is partitioned by it, EVERY {format_period(cut.every)}."
        if not cut.is_cut:
            bound = "Late changes of the table are judged by it."
        hint = "Create another table, and INSERT the rows of this one."
    if bound is None and cut is not None and cut.source == column:
        bound, hint = "LATENESS is BY it: it names the sources of rows.", f"{drop} LATENESS first."
    if bound:
        raise Unsupported(f'column "{column}" of "{table.name}" cannot be {done}', detail=bound, hint=hint)


def _columns_of(table: Table, constraint: Constraint) -> Collection[str]:
    if isinstance(constraint, CheckConstraint):
        return columns_in(check_condition(table, constraint))
    return constraint.columns


def _as_bound(constraint: Constraint) -> str:
    match constraint:
        case CheckConstraint(name):
            return f'The check "{name}" reads it.'
        case ReferentialConstraint():
            return f'It is part of the foreign key "{constraint.name}".'
        case UniqueConstraint():
            return f'It is part of the unique columns "{constraint.name}".'
