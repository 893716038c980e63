"""A table with other columns: what follows from a change of one, and what does not allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.relational.walk import columns_in
from tidemill.changes.alterations import Alteration
from tidemill.compiler.frontends.script import statements as sql
from tidemill.compiler.frontends.script.check_conditions import check_condition
from tidemill.compiler.frontends.sql.named_definitions import default_value
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS, unknown_name
from tidemill.model import types as t
from tidemill.model.errors import DataError, NameTaken, TypeMismatch, Unsupported
from tidemill.model.schema import Table, names_of
from tidemill.model.types import Field, Type

__all__ = ["AlteredTable", "altered_table", "with_fields"]

INTEGERS: tuple[Type, ...] = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)


@dataclass(frozen=True)
class AlteredTable:
    """A table after a change of its columns, and what the change is to its stored rows.

    ``renamed`` are new names of columns by the old ones, and ``dropped`` columns that are gone. Rows have to be looked
    at for columns that must not be NULL any more, which are ``required``, and for a new primary ``key``.
    """

    before: Table
    table: Table
    alterations: tuple[Alteration, ...] = ()
    renamed: Mapping[str, str] | None = None
    dropped: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    def seen(self, names: Mapping[str, str] | None) -> dict[str, str] | None:
        """The columns that a view sees from now on, by the names that it knows; None if these are all, as they are."""
        known = {f.name: f.name for f in self.before.fields} if names is None else names
        renamed = self.renamed or {}
        left = {name: renamed.get(now, now) for name, now in known.items() if now not in self.dropped}
        return None if left == {f.name: f.name for f in self.table.fields} else left


def altered_table(table: Table, change: sql.ColumnChange, *, is_empty: bool) -> AlteredTable:
    """``table`` after a change of its columns; refused if a key, a check or its partitions do not allow it."""
    match change:
        case sql.AddColumns(fields, defaults):
            return _with_columns(table, fields, defaults, is_empty)
        case sql.DropColumns(columns, if_exists):
            return _without_columns(table, columns, if_exists)
        case sql.RenameColumn(column, to):
            return _with_renamed(table, column, to)
        case sql.SetType(column, field):
            return _with_type(table, _field(table, column), field)
        case sql.SetNullable(column, nullable):
            return _with_nullability(table, _field(table, column), nullable)
        case sql.SetDefault(column, text):
            return _with_default(table, _field(table, column), text)
        case sql.SetPrimaryKey(columns):
            return _with_key(table, columns)


def with_fields(table: Table, wanted: Sequence[Field]) -> AlteredTable:
    """``table`` with the columns of ``wanted``: others are dropped, and those of another type are new columns.

    New columns may be NULL, as they are in the rows that are there.
    """
    types, kept = {f.name: f for f in wanted}, {f.name: f for f in table.fields}
    same = {name for name, field in kept.items() if name in types and is_wider(field, types[name])}
    gone = tuple(name for name in kept if name not in same)
    steps: list[sql.ColumnChange] = [sql.DropColumns(gone)] if gone else []
    steps += [sql.SetType(name, types[name]) for name in kept if name in same and types[name].type != kept[name].type]
    new = tuple(replace(field, nullable=True) for name, field in types.items() if name not in same)
    steps += [sql.AddColumns(new, {})] if new else []
    altered = AlteredTable(table, table)
    for step in steps:
        after = altered_table(altered.table, step, is_empty=False)
        altered = replace(altered, table=after.table, alterations=(*altered.alterations, *after.alterations))
    return replace(altered, dropped=gone)


def _field(table: Table, column: str) -> Field:
    for field in table.fields:
        if field.name == column:
            return field
    raise unknown_name("column", column, names_of(table.fields))


def _replaced(table: Table, column: str, field: Field) -> Table:
    return replace(table, fields=tuple(field if f.name == column else f for f in table.fields))


def _with_columns(table: Table, fields: tuple[Field, ...], defaults: Mapping[str, str], is_empty: bool) -> AlteredTable:
    known = set(names_of(table.fields))
    alterations = []
    for field in fields:
        if field.name in known:
            raise NameTaken(f'"{table.name}" has a column "{field.name}" already')
        value = default_value(defaults.get(field.name), field.type).value
        if value is None and not field.nullable and not is_empty:
            raise DataError(
                f'column "{field.name}" cannot be NOT NULL',
                detail=f'"{table.name}" has rows, which would be NULL there.',
                hint="Give a DEFAULT, which these rows then have.",
            )
        if isinstance(value, str) and field.length is not None and len(value) > field.length:
            raise TypeMismatch(f'the DEFAULT of "{field.name}" is longer than {field.declared}')
        alterations.append(Alteration.add(field, value))
    changed = replace(table, fields=(*table.fields, *fields), defaults=(*table.defaults, *defaults.items()))
    return AlteredTable(table, changed, tuple(alterations))


def _without_columns(table: Table, columns: tuple[str, ...], if_exists: bool) -> AlteredTable:
    gone = [column for column in columns if not if_exists or column in names_of(table.fields)]
    for column in gone:
        _field(table, column)
        _require_unbound(table, column, "dropped")
    left = tuple(f for f in table.fields if f.name not in gone)
    if not left:
        raise Unsupported(f'"{table.name}" would have no columns left', hint="DROP the table.")
    defaults = tuple(item for item in table.defaults if item[0] not in gone)
    changed = replace(table, fields=left, defaults=defaults)
    return AlteredTable(table, changed, tuple(Alteration("drop", column) for column in gone), dropped=tuple(gone))


def _require_unbound(table: Table, column: str, done: str) -> None:
    """Refuse a column that a key, a check or the partitions of its table need."""
    bound = None
    if column in table.primary_key:
        bound = "It is part of the primary key."
    elif any(column in reference.columns for reference in table.references):
        bound = "It is part of a foreign key."
    elif table.partitioning is not None and table.partitioning.column == column:
        bound = "The table is partitioned by it."
    bound = bound or _check_over(table, column)
    if bound:
        raise Unsupported(f'column "{column}" of "{table.name}" cannot be {done}', detail=bound)


def _check_over(table: Table, column: str) -> str | None:
    for check in table.checks:
        if column in columns_in(check_condition(table, check)):
            return f'The check "{check.name}" reads it.'
    return None


def _with_renamed(table: Table, column: str, to: str) -> AlteredTable:
    field = _field(table, column)
    if to in names_of(table.fields):
        raise NameTaken(f'"{table.name}" has a column "{to}" already')
    if to in RESERVED_COLUMNS:
        raise NameTaken(f'a column cannot be called "{to}"', detail="The name is reserved for a column of the engine.")
    if bound := _check_over(table, column):
        raise Unsupported(f'column "{column}" of "{table.name}" cannot be renamed', detail=bound)

    def names(some: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(to if name == column else name for name in some)

    cut = table.partitioning
    changed = replace(
        _replaced(table, column, replace(field, name=to)),
        primary_key=names(table.primary_key),
        references=tuple(replace(reference, columns=names(reference.columns)) for reference in table.references),
        defaults=tuple((to if name == column else name, text) for name, text in table.defaults),
        partitioning=replace(cut, column=to) if cut is not None and cut.column == column else cut,
    )
    return AlteredTable(table, changed, (Alteration("rename", column, to=to),), renamed={column: to})


def _with_type(table: Table, field: Field, wanted: Field) -> AlteredTable:
    new = replace(wanted, nullable=field.nullable)
    if not is_wider(field, new):
        raise TypeMismatch(
            f'column "{field.name}" cannot become {new.declared}',
            detail=f"It is {field.declared}, and only a type that holds all of its values can follow.",
            hint="TINYINT to SMALLINT to INT to BIGINT, FLOAT to DOUBLE, DECIMAL to one of more digits, DATE to "
            "TIMESTAMP_NTZ, VARCHAR to a longer one or to STRING.",
        )
    if field.type != new.type:
        if any(field.name in reference.columns for reference in table.references):
            _require_unbound(table, field.name, "widened")
        if table.partitioning is not None and table.partitioning.column == field.name:
            _require_unbound(table, field.name, "widened")
    alterations = (Alteration.widen(new),) if field.type != new.type else ()
    return AlteredTable(table, _replaced(table, field.name, new), alterations)


def is_wider(old: Field, new: Field) -> bool:
    """True if a column of the new type holds every value of the old one, and equal ones are equal.

    >>> is_wider(Field("a", t.INT), Field("a", t.BIGINT)), is_wider(Field("a", t.BIGINT), Field("a", t.DOUBLE))
    (True, False)
    """
    if old.char is not None or new.char is not None:
        return old.declared == new.declared
    if old.type == new.type:
        return new.length is None or (old.length is not None and new.length >= old.length)
    match old.type, new.type:
        case t.Decimal(precision, scale), t.Decimal(wider, finer):
            return finer >= scale and wider - finer >= precision - scale
        case t.Float(), t.Double():
            return True
        case t.Date(), t.TimestampNtz():
            return True
    if old.type in INTEGERS and new.type in INTEGERS:
        return INTEGERS.index(new.type) > INTEGERS.index(old.type)
    return False


def _with_nullability(table: Table, field: Field, nullable: bool) -> AlteredTable:
    if nullable and field.name in table.primary_key:
        _require_unbound(table, field.name, "NULL")
    changed = _replaced(table, field.name, replace(field, nullable=nullable))
    return AlteredTable(table, changed, required=(field.name,) if field.nullable and not nullable else ())


def _with_key(table: Table, columns: tuple[str, ...]) -> AlteredTable:
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
    if len(set(columns)) < len(columns):
        raise Unsupported("a column stands twice in a primary key")
    open_ = tuple(name for name in columns if _field(table, name).nullable)
    fields = tuple(replace(f, nullable=False) if f.name in columns else f for f in table.fields)
    return AlteredTable(table, replace(table, fields=fields, primary_key=columns), required=open_, key=columns)


def _with_default(table: Table, field: Field, text: str | None) -> AlteredTable:
    kept = tuple(item for item in table.defaults if item[0] != field.name)
    if text is not None:
        default_value(text, field.type)
        kept = (*kept, (field.name, text))
    return AlteredTable(table, replace(table, defaults=kept))
