"""The rows of ``information_schema``, as PostgreSQL fills it: one catalog, the database; one schema, public."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.model import types as t
from tidemill.serving.pgwire.catalog.shape import RelationShape, WarehouseShape
from tidemill.serving.pgwire.types import oids
from tidemill.serving.pgwire.types.oids import column_description

__all__ = ["information_rows"]

Row = dict[str, Any]
SCHEMA = "public"
TABLE_TYPES = {"r": "BASE TABLE", "v": "VIEW", "m": "VIEW"}
"""PostgreSQL leaves materialized views out; here they are what people come for, so they are listed as views."""


def information_rows(shape: WarehouseShape, database: str, user: str) -> Iterator[tuple[str, Row]]:
    """Rows with the names of their tables."""
    yield "information_schema_catalog_name", {"catalog_name": database}
    for schema in ("public", "pg_catalog", "information_schema"):
        yield "schemata", {"catalog_name": database, "schema_name": schema, "schema_owner": user}
    for relation in shape.relations:
        if relation.kind in TABLE_TYPES:
            yield from _relation(relation, database)
    for relation in shape.relations:
        yield from _constraints(relation, database)


def _of(relation: RelationShape, database: str) -> Row:
    return {"table_catalog": database, "table_schema": SCHEMA, "table_name": relation.name}


def _relation(relation: RelationShape, database: str) -> Iterator[tuple[str, Row]]:
    of = _of(relation, database)
    insertable = "YES" if relation.kind == "r" else "NO"
    kind = TABLE_TYPES[relation.kind]
    yield "tables", of | {"table_type": kind, "is_insertable_into": insertable, "is_typed": "NO"}
    if relation.kind != "r":
        view = {"view_definition": relation.definition, "check_option": "NONE", "is_updatable": "NO"}
        yield "views", of | view | {"is_insertable_into": "NO"}
    defaults = dict(relation.defaults)
    for place, field in enumerate(relation.fields, start=1):
        described = column_description(field)
        kind_of = oids.BY_OID.get(described.oid)
        title = "ARRAY" if kind_of is None else kind_of.title
        name = f"_{oids.BY_OID[oids.ELEMENT_OF[described.oid]].name}" if kind_of is None else kind_of.name
        row = {
            "column_name": field.name, "ordinal_position": place, "column_default": defaults.get(field.name),
            "is_nullable": "YES" if field.nullable else "NO", "data_type": title, "udt_catalog": database,
            "udt_schema": "pg_catalog", "udt_name": name, "character_maximum_length": field.char or field.length,
            "dtd_identifier": str(place), "is_self_referencing": "NO", "is_identity": "NO", "is_generated": "NEVER",
            "is_updatable": insertable, "identity_cycle": "NO",
        }  # fmt: skip
        yield "columns", of | row | _precision(field.type)


def _precision(of: t.Type) -> Row:
    match of:
        case t.Decimal(precision=precision, scale=scale):
            return {"numeric_precision": precision, "numeric_precision_radix": 10, "numeric_scale": scale}
        case t.Integral():
            bits = max(of.bits, 16)
            return {"numeric_precision": bits, "numeric_precision_radix": 2, "numeric_scale": 0}
        case t.Float():
            return {"numeric_precision": 24, "numeric_precision_radix": 2}
        case t.Double():
            return {"numeric_precision": 53, "numeric_precision_radix": 2}
        case t.Timestamp() | t.Time() | t.AnsiInterval() | t.CalendarInterval():
            return {"datetime_precision": 6}
        case t.Date():
            return {"datetime_precision": 0}
    return {}


KINDS = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY", "c": "CHECK"}


def _constraints(relation: RelationShape, database: str) -> Iterator[tuple[str, Row]]:
    if relation.kind != "r":
        return
    of = _of(relation, database)
    for constraint in relation.constraints:
        named = {
            "constraint_catalog": database, "constraint_schema": SCHEMA, "constraint_name": constraint.name
        }  # fmt: skip
        yield (
            "table_constraints",
            named
            | of
            | {
                "constraint_type": KINDS[constraint.kind],
                "is_deferrable": "NO",
                "initially_deferred": "NO",
                "enforced": "YES",
            },
        )
        for place, column in enumerate(constraint.columns, start=1):
            position = place if constraint.kind == "f" else None
            usage = {"column_name": column, "ordinal_position": place, "position_in_unique_constraint": position}
            yield "key_column_usage", named | of | usage
            if constraint.kind in "pu":
                yield "constraint_column_usage", of | {"column_name": column} | named
        if constraint.kind == "c":
            yield "check_constraints", named | {"check_clause": constraint.text}
        if constraint.kind == "f":
            other = {
                "unique_constraint_catalog": database, "unique_constraint_schema": SCHEMA,
                "unique_constraint_name": f"{constraint.refers_to}_pkey", "match_option": "NONE",
                "update_rule": "NO ACTION", "delete_rule": "NO ACTION",
            }  # fmt: skip
            yield "referential_constraints", named | other
