"""The tables of ``information_schema``: the catalog as rows, in the columns of the SQL standard and some of our own.

``information_rows`` is the one place where they are made. A SELECT that is run once reads them as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan, Values
from tidemill.algebra.relational.walk import scans, transform
from tidemill.compiler.frontends.sql.grammar.statement_cursor import INFORMATION_SCHEMA
from tidemill.compiler.frontends.sql.named_definitions import NamedQuery
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.stored_statistics import counted_rows
from tidemill.engine.engine import Engine
from tidemill.model.errors import TidemillError
from tidemill.model.schema import CheckConstraint, ReferentialConstraint, RelationFields, Table
from tidemill.model.types import BIGINT, STRING, Decimal, Field, Float, Floating, Integral, Timestamp, Type
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN

__all__ = ["INFORMATION_RELATIONS", "INFORMATION_TABLES", "information_rows", "with_information"]

CATALOG, SCHEMA = "spark_catalog", "default"

_NUMBERS = {
    "ordinal_position",
    "character_maximum_length",
    "numeric_precision",
    "numeric_precision_radix",
    "numeric_scale",
    "datetime_precision",
    "position_in_unique_constraint",
    "rows",
    "created_epoch",
    "shown_epoch",
}


def _columns(text: str) -> tuple[Field, ...]:
    return tuple(Field(name, BIGINT if name in _NUMBERS else STRING) for name in text.split())


_OF_TABLE = "table_catalog table_schema table_name"
_OF_CONSTRAINT = "constraint_catalog constraint_schema constraint_name"

INFORMATION_TABLES: Mapping[str, tuple[Field, ...]] = {
    "schemata": _columns("catalog_name schema_name schema_owner"),
    "tables": _columns(f"{_OF_TABLE} table_type is_insertable_into rows format location"),
    "columns": _columns(
        f"{_OF_TABLE} column_name ordinal_position column_default is_nullable data_type full_data_type "
        "character_maximum_length numeric_precision numeric_precision_radix numeric_scale datetime_precision"
    ),
    "views": _columns(
        f"{_OF_TABLE} view_definition check_option is_updatable is_insertable_into is_materialized "
        "strategy runtime refresh serve reads options created_epoch shown_epoch"
    ),
    "table_constraints": _columns(
        f"{_OF_CONSTRAINT} {_OF_TABLE} constraint_type is_deferrable initially_deferred enforced"
    ),
    "key_column_usage": _columns(
        f"{_OF_CONSTRAINT} {_OF_TABLE} column_name ordinal_position position_in_unique_constraint"
    ),
    "referential_constraints": _columns(
        f"{_OF_CONSTRAINT} unique_constraint_catalog unique_constraint_schema unique_constraint_name "
        "match_option update_rule delete_rule referenced_table"
    ),
    "check_constraints": _columns(f"{_OF_CONSTRAINT} check_clause"),
}
"""The columns of each table of ``information_schema``, by its name."""

_PREFIX = f"{INFORMATION_SCHEMA}."

INFORMATION_RELATIONS: RelationFields = {_PREFIX + name: fields for name, fields in INFORMATION_TABLES.items()}
"""The same by the names that queries have for them."""

Rows = Iterable[tuple[Any, ...]]


def with_information(engine: Engine, relation: Relation) -> Relation:
    """A query with the rows of ``information_schema`` in place of its tables."""
    if INFORMATION_RELATIONS.keys().isdisjoint(scans(relation)):
        return relation
    known: dict[str, tuple[tuple[Any, ...], ...]] = {}

    def rows(node: Relation) -> Relation:
        if not (isinstance(node, Scan) and node.relation in INFORMATION_RELATIONS):
            return node
        if node.relation not in known:
            with engine.settled():
                known[node.relation] = tuple(information_rows(engine, node.relation.removeprefix(_PREFIX)))
        return Values(known[node.relation], node.fields)

    return transform(relation, rows)


def information_rows(engine: Engine, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table of ``information_schema``, as the catalog is now: no row twice, in the order of creation."""
    rows = list(dict.fromkeys(_ROWS[table](engine)))
    return rows if engine.rights.reads_all else list(_seen(engine, table, rows))


HIDDEN_COLUMNS = (
    *("rows", "location", "column_default", "view_definition", "strategy", "runtime", "refresh", "serve", "reads"),
    *("options", "created_epoch", "shown_epoch"),
)
"""Columns that are NULL for who may not read all tables: they tell of other tables, or of rows."""


def _seen(engine: Engine, table: str, rows: Rows) -> Rows:
    """The rows about tables and views on which the session has some right, or that are its own."""
    names = [field.name for field in INFORMATION_TABLES[table]]
    if table == "schemata":
        yield from rows
    elif "table_name" in names:
        place, own = names.index("table_name"), engine.session.definitions.queries
        hidden = {i for i, name in enumerate(names) if name in HIDDEN_COLUMNS}
        for row in rows:
            if engine.rights.sees(row[place]) or row[place] in own:
                yield tuple(None if i in hidden else value for i, value in enumerate(row))


def _schemata(engine: Engine) -> Rows:
    yield CATALOG, SCHEMA, None


def _tables(engine: Engine) -> Rows:
    for table in _base_tables(engine):
        lake = engine.catalog.lakes.get(table.name)
        kind = "LAKE TABLE" if lake else "BASE TABLE" if table.kept else "STREAM"
        rows = counted_rows(engine.catalog, engine.store, table.name) if table.kept else None
        place = (lake.format, lake.location) if lake else (None, None)
        yield CATALOG, SCHEMA, table.name, kind, "NO" if lake else "YES", rows, *place
    for view in engine.catalog.shown_views():
        stored = None if view.computed_on_read else counted_rows(engine.catalog, engine.store, view.name)
        yield CATALOG, SCHEMA, view.name, "MATERIALIZED VIEW", "NO", stored, None, None
    for name in _shown_queries(engine):
        kind = "TEMPORARY VIEW" if name in engine.session.definitions.queries else "VIEW"
        yield CATALOG, SCHEMA, name, kind, "NO", None, None, None


def _base_tables(engine: Engine) -> Iterator[Table]:
    """The tables and streams that users see."""
    return (table for table in engine.catalog.tables.values() if SUBPLAN_SIGN not in table.name)


def _all_fields(engine: Engine) -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Every table and view with its columns; those of a view that no longer fits its tables are unknown."""
    yield from ((table.name, table.fields) for table in _base_tables(engine))
    yield from ((view.name, view.fields) for view in engine.catalog.shown_views())
    for name in _shown_queries(engine):
        try:
            yield name, _fields_of_query(engine, name)
        except TidemillError:
            yield name, ()


def _shown_queries(engine: Engine) -> dict[str, NamedQuery]:
    """The views that are not materialized, without those of stages."""
    staged = engine.catalog.staged
    return {name: query for name, query in engine.named.queries.items() if name not in staged}


def _fields_of_query(engine: Engine, name: str) -> tuple[Field, ...]:
    named, query = engine.named, f"SELECT * FROM `{name}`"
    known, clock = engine.catalog.relations, ClockReads.wall()
    return translate(query, known, functions=named.registered, named=named, clock=clock).relation.fields


def _all_columns(engine: Engine) -> Rows:
    defaults = {table.name: dict(table.defaults) for table in _base_tables(engine)}
    for name, fields in _all_fields(engine):
        for place, field in enumerate(fields, start=1):
            default = defaults.get(name, {}).get(field.name)
            nullable = "YES" if field.nullable else "NO"
            yield CATALOG, SCHEMA, name, field.name, place, default, nullable, *_type_cells(field)


def _type_cells(field: Field) -> tuple[Any, ...]:
    """The name of a type and how it is spelled in full; then its lengths and precisions."""
    full = field.declared
    base = full.partition("(")[0].partition("<")[0].strip()
    length = field.length if field.char is None else field.char
    return base, full, length, *_precision(field.type), 6 if isinstance(field.type, Timestamp) else None


def _precision(of: Type) -> tuple[int | None, int | None, int | None]:
    """Precision, radix and scale of a type of numbers."""
    if isinstance(of, Decimal):
        return of.precision, 10, of.scale
    if isinstance(of, Integral):
        return of.bits, 2, 0
    return (24 if isinstance(of, Float) else 53, 2, None) if isinstance(of, Floating) else (None, None, None)


def _views(engine: Engine) -> Rows:
    for view in engine.catalog.shown_views():
        strategies = ", ".join(dict.fromkeys(stage.strategy for stage in view.full_program.stages))
        placed = engine.pipeline.find(view.name)
        runtime = None if placed is None else placed.runtime.name  # another thread is replacing it
        refresh = view.options.get("refresh", "immediate")
        options = ", ".join(f"{name}={value}" for name, value in view.options.items()) or None
        shown = view.fresh if view.refresh.deferred else engine.store.epoch
        reads = ", ".join(name for name in view.inputs if SUBPLAN_SIGN not in name)
        ours = (strategies, runtime, refresh, view.serve.value, reads, options, view.created, shown)
        yield CATALOG, SCHEMA, view.name, view.text, "NONE", "NO", "NO", "YES", *ours
    for name, query in _shown_queries(engine).items():
        yield CATALOG, SCHEMA, name, query.text, "NONE", "NO", "NO", "NO", *[None] * 8


def _primary(table: str) -> str:
    return f"{table}_pkey"


def _foreign(table: str, key: ReferentialConstraint) -> str:
    return key.name or f"{table}_{'_'.join(key.columns)}_fkey"


def _check(table: Table, check: CheckConstraint) -> str:
    return check.name or f"{table.name}_check{table.checks.index(check) + 1}"


def _view_keys(engine: Engine) -> Iterator[tuple[View, list[str]]]:
    """The views whose rows are known to differ in some columns, with these."""
    for view in engine.catalog.shown_views():
        places = key_of_view(view, engine.catalog)
        if places:
            yield view, [view.fields[place].name for place in places]


def _unique(view: View) -> str:
    return f"{view.name}_key"


def _table_constraints(engine: Engine) -> Rows:
    def row(table: str, name: str, kind: str, enforced: bool = True) -> tuple[Any, ...]:
        return CATALOG, SCHEMA, name, CATALOG, SCHEMA, table, kind, "NO", "NO", "YES" if enforced else "NO"

    for table in _base_tables(engine):
        if table.primary_key:
            yield row(table.name, _primary(table.name), "PRIMARY KEY", enforced=table.kept)
        for unique in table.uniques:
            yield row(table.name, unique.name, "UNIQUE", unique.enforced)
        for key in table.references:
            yield row(table.name, _foreign(table.name, key), "FOREIGN KEY", key.enforced)
        for check in table.checks:
            yield row(table.name, _check(table, check), "CHECK", check.enforced)
    for view, _ in _view_keys(engine):
        yield row(view.name, _unique(view), "UNIQUE")


def _key_column_usage(engine: Engine) -> Rows:
    def rows(table: str, name: str, columns: Iterable[str], refers: bool = False) -> Rows:
        for place, column in enumerate(columns, start=1):
            yield CATALOG, SCHEMA, name, CATALOG, SCHEMA, table, column, place, place if refers else None

    for table in _base_tables(engine):
        yield from rows(table.name, _primary(table.name), table.primary_key)
        for unique in table.uniques:
            yield from rows(table.name, unique.name, unique.columns)
        for key in table.references:
            yield from rows(table.name, _foreign(table.name, key), key.columns, refers=True)
    for view, columns in _view_keys(engine):
        yield from rows(view.name, _unique(view), columns)


def _referential_constraints(engine: Engine) -> Rows:
    for table in _base_tables(engine):
        for key in table.references:
            names = (CATALOG, SCHEMA, _foreign(table.name, key), CATALOG, SCHEMA, _primary(key.table))
            yield *names, "NONE", "NO ACTION", "NO ACTION", key.table


def _check_constraints(engine: Engine) -> Rows:
    for table in _base_tables(engine):
        for check in table.checks:
            yield CATALOG, SCHEMA, _check(table, check), check.text


_ROWS: Mapping[str, Callable[[Engine], Rows]] = {
    "schemata": _schemata,
    "tables": _tables,
    "columns": _all_columns,
    "views": _views,
    "table_constraints": _table_constraints,
    "key_column_usage": _key_column_usage,
    "referential_constraints": _referential_constraints,
    "check_constraints": _check_constraints,
}
