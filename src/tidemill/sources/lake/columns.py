"""Arrow schemas as columns of a table. A type that has no equal here is refused by name, and never approximated."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from tidemill.changes.arrow import arrow_type
from tidemill.compiler.frontends.text.names import RESERVED_COLUMNS
from tidemill.model import types as t
from tidemill.model.errors import Unsupported
from tidemill.model.types import Field, Type

__all__ = ["fields_of_schema", "type_of_arrow", "without_views"]

_PLAIN: dict[pa.DataType, Type] = {
    arrow_type(type_): type_
    for type_ in (
        t.BOOLEAN,
        t.TINYINT,
        t.SMALLINT,
        t.INT,
        t.BIGINT,
        t.FLOAT,
        t.DOUBLE,
        t.STRING,
        t.BINARY,
        t.DATE,
        t.TIME,
        t.TIMESTAMP,
        t.TIMESTAMP_NTZ,
    )
} | {pa.large_string(): t.STRING, pa.string_view(): t.STRING, pa.large_binary(): t.BINARY, pa.binary_view(): t.BINARY}


def fields_of_schema(schema: pa.Schema, where: str, wanted: Collection[str] | None = None) -> tuple[Field, ...]:
    """The columns of an Arrow schema, or those that are ``wanted``, with names in lower case.

    >>> fields_of_schema(pa.schema([pa.field("Id", pa.int64(), nullable=False), ("tags", pa.list_(pa.string()))]), "t")
    (Field(name='id', type=BigInt(), nullable=False, length=None, char=None), \
Field(name='tags', type=Array(element=String()), nullable=True, length=None, char=None))
    """
    taken = [f for f in schema if wanted is None or f.name.lower() in wanted]
    _require_names((f.name for f in taken), where)
    return tuple(Field(f.name.lower(), _type(f, where), f.nullable) for f in taken)


def _require_names(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in map(str.lower, names):
        if name in RESERVED_COLUMNS:
            raise Unsupported(
                f'a column cannot be called "{name}"',
                where=where,
                detail="The name is reserved for a column of the engine.",
                hint="Name the columns to take in CREATE TABLE, without this one.",
            )
        if name in seen:
            raise Unsupported(f'column "{name}" comes twice', where=where, detail="Names do not depend on case.")
        seen.add(name)


def _type(field: pa.Field, where: str) -> Type:
    found = type_of_arrow(field.type)
    if found is None:
        raise Unsupported(
            f'column "{field.name.lower()}" has the type {field.type}, which has no equal here',
            where=where,
            hint="Name the columns to take in CREATE TABLE, without this one.",
        )
    return found


def type_of_arrow(kind: pa.DataType) -> Type | None:
    """The type whose values are exactly those of an Arrow type; None if there is none.

    >>> str(type_of_arrow(pa.decimal128(10, 2))), type_of_arrow(pa.uint64()), type_of_arrow(pa.timestamp("ns"))
    ('DECIMAL(10,2)', None, None)
    """
    kinds = pa.types
    if kinds.is_decimal(kind):
        fits = kind.precision <= t.MAX_PRECISION and 0 <= kind.scale <= kind.precision
        return t.Decimal(kind.precision, kind.scale) if fits else None
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        element = type_of_arrow(kind.value_type)
        return None if element is None else t.Array(element)
    if kinds.is_map(kind):
        key, value = type_of_arrow(kind.key_type), type_of_arrow(kind.item_type)
        return None if key is None or value is None else t.Map(key, value)
    if kinds.is_struct(kind):
        return _struct(kind)
    return _PLAIN.get(kind)


def _struct(kind: pa.DataType) -> Type | None:
    members = [(f.name.lower(), type_of_arrow(f.type)) for f in kind]
    fields = tuple(Field(name, type_) for name, type_ in members if type_ is not None)
    return t.Struct(fields) if len(fields) == len(members) else None


_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""Types that some writers note in files, and that Arrow cannot filter, with those that are read instead."""


def without_views(rows: pa.Table) -> pa.Table:
    """Rows whose texts and bytes, also within others, have types that Arrow can filter.

    >>> without_views(pa.table({"a": pa.array([["x"]], pa.list_(pa.string_view()))})).schema.field("a").type
    ListType(list<item: string>)
    """
    plain = pa.schema([_plain(field) for field in rows.schema])
    return rows if plain.equals(rows.schema) else rows.cast(plain)


def _plain(field: pa.Field) -> pa.Field:
    kind, kinds = field.type, pa.types
    if kinds.is_list(kind):
        return field.with_type(pa.list_(_plain(kind.value_field)))
    if kinds.is_large_list(kind):
        return field.with_type(pa.large_list(_plain(kind.value_field)))
    if kinds.is_map(kind):
        return field.with_type(pa.map_(_plain(kind.key_field), _plain(kind.item_field)))
    if kinds.is_struct(kind):
        return field.with_type(pa.struct([_plain(inner) for inner in kind]))
    return field.with_type(_VIEWS.get(kind, kind))
