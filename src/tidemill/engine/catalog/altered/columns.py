"""Columns of a table that come, go, move, and get other names, types and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.changes.alterations import Alteration
from tidemill.compiler.frontends.script.definitions.check_conditions import with_renamed_column
from tidemill.compiler.frontends.script.table_changes import AddColumns, ColumnPlace
from tidemill.compiler.frontends.sql.named_definitions import default_value
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS, unknown_name
from tidemill.engine.catalog.altered.constraints import require_unbound
from tidemill.engine.catalog.altered.table import AlteredTable, field_of, with_field
from tidemill.model import types as t
from tidemill.model.errors import DataError, NameTaken, TypeMismatch, Unsupported
from tidemill.model.schema import CHANGE, WHEN, Table, late_table, names_of
from tidemill.model.types import Field, Type

__all__ = [
    "is_wider",
    "with_columns",
    "with_default",
    "with_fields",
    "with_moved",
    "with_nullability",
    "with_renamed",
    "with_type",
    "without_columns",
]

INTEGERS: tuple[Type, ...] = (t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)


def with_fields(table: Table, wanted: Sequence[Field]) -> AlteredTable:
    """``table`` with the columns of ``wanted``: others are dropped, and those of another type are new columns.

    New columns may be NULL, as they are in the rows that are there.
    """
    types, kept = {f.name: f for f in wanted}, {f.name: f for f in table.fields}
    same = {name for name, field in kept.items() if name in types and is_wider(field, types[name])}
    gone = tuple(name for name in kept if name not in same)
    wider = [name for name in kept if name in same and types[name].type != kept[name].type]
    new = tuple(replace(field, nullable=True) for name, field in types.items() if name not in same)
    altered = without_columns(table, gone) if gone else AlteredTable(table, table)
    for name in wider:
        altered = _then(altered, with_type(altered.table, field_of(altered.table, name), types[name]))
    return _then(altered, with_columns(altered.table, AddColumns(new, {}), is_empty=False)) if new else altered


def _then(first: AlteredTable, then: AlteredTable) -> AlteredTable:
    return replace(first, table=then.table, alterations=(*first.alterations, *then.alterations))


def with_columns(table: Table, added: AddColumns, is_empty: bool) -> AlteredTable:
    """``table`` with new columns; rows that are there have their defaults."""
    known, alterations, fields = set(names_of(table.fields)), [], table.fields
    for field in added.fields:
        if field.name in known and added.if_not_exists:
            continue
        if field.name in known:
            raise NameTaken(f'"{table.name}" has a column "{field.name}" already')
        _require_free_name(table, field.name)
        alterations.append(Alteration.add(field, _default_of(table, field, added.defaults, is_empty)))
        known.add(field.name)
        fields = _placed(table, fields, field, added.places.get(field.name))
    defaults = [item for item in added.defaults.items() if item[0] not in names_of(table.fields)]
    changed = replace(table, fields=fields, defaults=(*table.defaults, *defaults))
    return AlteredTable(table, changed, tuple(alterations))


def _default_of(table: Table, field: Field, defaults: Mapping[str, str], is_empty: bool) -> object:
    """The value that rows have in a new column."""
    value = default_value(defaults.get(field.name), field.type).value
    if value is None and not field.nullable and not is_empty:
        raise DataError(
            f'column "{field.name}" cannot be NOT NULL',
            detail=f'"{table.name}" has rows, which would be NULL there.',
            hint="Give a DEFAULT, which these rows then have.",
        )
    if isinstance(value, str) and field.length is not None and len(value) > field.length:
        raise TypeMismatch(f'the DEFAULT of "{field.name}" is longer than {field.declared}')
    return value


def _require_free_name(table: Table, column: str) -> None:
    """Refuse names of columns that the engine has beside those of the table."""
    if column in RESERVED_COLUMNS:
        raise NameTaken(
            f'a column cannot be called "{column}"', detail="The name is reserved for a column of the engine."
        )
    if column in (CHANGE, WHEN) and late_table(table) is not None:
        raise NameTaken(
            f'a table with LATENESS or RETAIN cannot have a column "{column}"',
            detail="The table of its late changes has one of that name.",
            hint="Give the column another name.",
        )


def _placed(table: Table, fields: tuple[Field, ...], field: Field, place: ColumnPlace | None) -> tuple[Field, ...]:
    """Fields with one more: the last, the first, or behind another one."""
    if place is None:
        return (*fields, field)
    if place.after is None:
        return (field, *fields)
    names = names_of(fields)
    if place.after not in names:
        raise unknown_name("column", place.after, names)
    at = names.index(place.after) + 1
    return (*fields[:at], field, *fields[at:])


def with_moved(table: Table, column: str, place: ColumnPlace) -> AlteredTable:
    """``table`` with a column in another place; rows are stored by the names of columns."""
    field = field_of(table, column)
    if place.after == column:
        raise Unsupported(f'column "{column}" cannot stand behind itself')
    left = tuple(f for f in table.fields if f is not field)
    return AlteredTable(table, replace(table, fields=_placed(table, left, field, place)))


def without_columns(table: Table, columns: tuple[str, ...], if_exists: bool = False) -> AlteredTable:
    """``table`` without some columns, which no key, check or partition may need."""
    gone = [column for column in columns if not if_exists or column in names_of(table.fields)]
    for column in gone:
        field_of(table, column)
        require_unbound(table, column, "dropped")
    left = tuple(f for f in table.fields if f.name not in gone)
    if not left:
        raise Unsupported(f'"{table.name}" would have no columns left', hint="DROP the table.")
    defaults = tuple(item for item in table.defaults if item[0] not in gone)
    changed = replace(table, fields=left, defaults=defaults)
    return AlteredTable(table, changed, tuple(Alteration("drop", column) for column in gone), dropped=tuple(gone))


def with_renamed(table: Table, column: str, to: str) -> AlteredTable:
    """``table`` with another name for a column: keys, checks, defaults and partitions follow."""
    field = field_of(table, column)
    if to in names_of(table.fields):
        raise NameTaken(f'"{table.name}" has a column "{to}" already')
    _require_free_name(table, to)

    def names(some: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(to if name == column else name for name in some)

    cut = table.partitioning
    changed = replace(
        with_field(table, column, replace(field, name=to)),
        primary_key=names(table.primary_key),
        references=tuple(replace(reference, columns=names(reference.columns)) for reference in table.references),
        uniques=tuple(replace(unique, columns=names(unique.columns)) for unique in table.uniques),
        defaults=tuple((to if name == column else name, text) for name, text in table.defaults),
        partitioning=cut and replace(cut, column=names((cut.column,))[0], source=names((cut.source,))[0]),
    )
    checks = (with_renamed_column(check, table, changed, column, to) for check in table.checks)
    return AlteredTable(
        table, replace(changed, checks=tuple(checks)), (Alteration("rename", column, to=to),), renamed={column: to}
    )


def with_type(table: Table, field: Field, wanted: Field) -> AlteredTable:
    """``table`` with a wider type for a column."""
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
            require_unbound(table, field.name, "widened")
        if table.partitioning is not None and table.partitioning.column == field.name:
            require_unbound(table, field.name, "widened")
    alterations = (Alteration.widen(new),) if field.type != new.type else ()
    return AlteredTable(table, with_field(table, field.name, new), alterations)


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


def with_nullability(table: Table, field: Field, nullable: bool) -> AlteredTable:
    """``table`` with a column that may be NULL, or may not any more."""
    if nullable and field.name in table.primary_key:
        require_unbound(table, field.name, "NULL")
    changed = with_field(table, field.name, replace(field, nullable=nullable))
    return AlteredTable(table, changed, required=(field.name,) if field.nullable and not nullable else ())


def with_default(table: Table, field: Field, text: str | None) -> AlteredTable:
    """``table`` with another default for a column, or without one."""
    kept = tuple(item for item in table.defaults if item[0] != field.name)
    if text is not None:
        default_value(text, field.type)
        kept = (*kept, (field.name, text))
    return AlteredTable(table, replace(table, defaults=kept))
