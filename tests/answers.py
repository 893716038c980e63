"""The rows that a view must have, computed by the evaluator, DuckDB and Spark.

``Answers`` holds the tables as Z-sets and the views as SQL. Nothing in it depends on how Tidemill keeps views fresh.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from duckdb import DuckDBPyConnection, connect

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.changes.arrow import arrow_schema, arrow_type, from_arrow, to_arrow
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.frontends.viewdf.partition_by import view_partitioning
from tidemill.model import types as t
from tidemill.model.array_forms import array_form
from tidemill.model.array_tree import ArrayTree, as_array
from tidemill.model.clocks import WALL, Clock
from tidemill.model.coerce import coerce, coerce_row
from tidemill.model.schema import WEIGHT, Partitioning, Table
from tidemill.model.types import Field, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Bags = dict[str, ZSet]

WALL_CLOCK = Clock(WALL)


class Answers:
    """Tables and their rows, views and their queries; each method answers all views."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.rows: Bags = {}
        self.queries: dict[str, str] = {}
        self.relations: dict[str, Relation] = {}
        self.partitionings: dict[str, Partitioning] = {}
        self.clocks = {WALL_CLOCK.relation: WALL_CLOCK.table}
        self.now: datetime | None = None

    def set_clock(self, instant: str) -> None:
        """Let the wall clock stand at ``instant``, also for those who are asked for a second opinion."""
        self.now = max(coerce(instant, t.TIMESTAMP), self.now or datetime.min)  # it never goes back

    def declare(self, table: Table) -> None:
        self.tables[table.name] = table
        self.rows[table.name] = ZSet()
        self._cut(table.name, table.partitioning)

    def define(self, name: str, query: str, partitions: str | None = None) -> None:
        clock = ClockReads.wall()
        named = NamedDefinitions(table_of=self.tables.get)
        known = self._known()
        translated = translate(query, known, name=name, partitionings=self.partitionings, named=named, clock=clock)
        self.relations[name] = translated.relation
        self.queries[name] = query
        cut = None if partitions is None else view_partitioning(name, partitions, translated.relation.fields)
        self._cut(name, cut or translated.partitioning)

    def _cut(self, name: str, partitioning: Partitioning | None) -> None:
        if partitioning is not None:
            self.partitionings[name] = partitioning

    def fields(self, name: str) -> tuple[Field, ...]:
        """The columns of a table or view, by the names that users gave them."""
        return self._known()[name]

    def _known(self) -> dict[str, tuple[Field, ...]]:
        views = {name: relation.fields for name, relation in self.relations.items()}
        return {name: table.fields for name, table in self.tables.items()} | views

    def evaluator(self) -> Bags:
        """By ``algebra.evaluate``: the meaning of the algebra."""
        known = dict(self.rows) | self.clock_rows()
        for name, relation in self.relations.items():
            known[name] = evaluate(relation, known)
        return {name: known[name] for name in self.queries}

    def clock_rows(self) -> Bags:
        """The row of the wall clock, once it has been set."""
        return {} if self.now is None else {WALL_CLOCK.relation: ZSet.of([(self.now,)])}

    def duckdb(self, connection: DuckDBPyConnection | None = None, *, leaving: Set[str] = frozenset()) -> Bags:
        """By DuckDB, from the transpiled SQL; its numbers may be of other types; ``leaving`` out some views.

        A ``connection`` that is asked again and again is for one warehouse (see ``empty_duckdb``).
        """
        if connection is None:
            with empty_duckdb() as once:
                return self.duckdb(once, leaving=leaving)
        for name in self.tables:
            connection.register(f"{name}_rows", _without_zones(self._arrow(name)))
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {name}_rows")
            connection.unregister(f"{name}_rows")
        asked = [name for name in self.queries if name not in leaving]
        for name in asked:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS {_for_duckdb(self._at_clock(name))}")
        return {name: self._fetch(name, connection) for name in asked}

    def _at_clock(self, name: str) -> str:
        """The query of a view, with the instant of the clock in place of ``now()``."""
        if self.now is None:
            return self.queries[name]
        instant, day = f"TIMESTAMP '{self.now.isoformat(' ')}'", f"DATE '{self.now.date()}'"
        dated = re.sub(r"\bcurrent_date\b(\(\))?", day, self.queries[name], flags=re.IGNORECASE)
        return re.sub(r"\b(now\(\)|current_timestamp\b(\(\))?)", instant, dated, flags=re.IGNORECASE)

    def _fetch(self, name: str, connection: DuckDBPyConnection) -> ZSet:
        # Its DATE_ADD makes timestamps where Spark's makes dates.
        days = [f"CAST({f.name} AS DATE) AS {f.name}" for f in self.fields(name) if f.type == t.DATE]
        columns = f"* REPLACE ({', '.join(days)})" if days else "*"
        return ZSet.of(map(_frozen, connection.execute(f"SELECT {columns} FROM {name}").fetchall()))

    def spark(self, spark: SparkSession, *, lenient: bool = False) -> Bags:
        """By Spark itself, from the views' own texts; its column types must be ours as well.

        A view that Spark refuses is left out where ``lenient``, and so are those that read it.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException

        from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow, rows_as_arrow

        for name in self.tables:
            frame = frame_of_arrow(spark, self._arrow(name), self.fields(name))
            # Arrow's timestamps without a time zone would be taken for instants.
            local = [f.name for f in self.fields(name) if f.type == t.TIMESTAMP_NTZ]
            frame = frame.withColumns({column: frame[column].cast("timestamp_ntz") for column in local})
            collated = [f for f in self.fields(name) if isinstance(f.type, t.Collated)]
            frame = frame.selectExpr(
                *(f"CAST({f.name} AS {f.type}) AS {f.name}" if f in collated else f.name for f in self.fields(name))
            )
            frame.createOrReplaceTempView(name)
        answers = {}
        for name in self.queries:
            try:
                frame = spark.sql(self._at_clock(name))
            except AnalysisException:
                if not lenient:
                    raise
                spark.catalog.dropTempView(name)
                continue
            frame.createOrReplaceTempView(name)
            try:
                answers[name] = self._read(name, rows_as_arrow(frame))
            except Py4JJavaError as fault:
                # Spark 4.3 folds a constant that a generator gives, and then takes the literal for a column.
                if not (lenient and "Literal cannot be cast to class" in str(fault)):
                    raise
        return answers

    def _read(self, name: str, table: pa.Table) -> ZSet:
        fields = self.fields(name)
        types = [_plain_type(of) for of in table.schema.types]
        assert types == [arrow_type(f.type) for f in fields], f"{name}: {table.schema} is not {fields}"
        named = table.rename_columns([f.name for f in fields]).cast(_schema(fields))
        return ZSet.summed(from_arrow(named, fields))

    def _arrow(self, name: str) -> pa.Table:
        fields = self.fields(name)
        return to_arrow(((row, 1) for row in self.rows[name].expand()), fields).drop_columns([WEIGHT])


_schemas = count()


@contextmanager
def empty_duckdb() -> Iterator[DuckDBPyConnection]:
    """DuckDB without any tables: the connection of this process, in a schema of its own.

    To connect costs more than to ask.
    """
    connection, schema = _duckdb(), f"own_{next(_schemas)}"
    connection.execute(f"CREATE SCHEMA {schema}; USE {schema}")
    try:
        yield connection
    finally:
        connection.execute(f"USE main; DROP SCHEMA {schema} CASCADE")


@cache
def _duckdb() -> DuckDBPyConnection:
    return connect()


@cache
def _for_duckdb(query: str) -> str:
    (text,) = sqlglot.transpile(query, read="spark", write="duckdb")
    return text


def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    return pa.schema([f for f in arrow_schema(fields) if f.name != WEIGHT])


def _plain_type(of: pa.DataType) -> pa.DataType:
    """A type of Spark's as Tidemill has it: elements and members may be NULL, and times of day are in microseconds."""
    if pa.types.is_list(of):
        return pa.list_(_plain_type(of.value_type))
    if pa.types.is_struct(of):
        return pa.struct([pa.field(member.name, _plain_type(member.type)) for member in of])
    return pa.time64("us") if of == pa.time64("ns") else of


def _without_zones(table: pa.Table) -> pa.Table:
    """Timestamps as DuckDB's TIMESTAMP, which knows no zone; ours are UTC."""
    naive = [pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, naive, strict=True))))


def _frozen(value: Any) -> Any:
    """A value of DuckDB's as a key."""
    match value:
        case list():
            return as_array(map(_frozen, value))
        case tuple():
            return tuple(map(_frozen, value))
        case dict():
            return tuple(map(_frozen, value.values()))
        case float():
            return math.nan if value != value else value + 0.0
    return value


def inner(rows: Iterable[Any], fields: tuple[Field, ...], name: str) -> list[Row]:
    """Rows as users see them, back in inner form."""
    return [coerce_row(row, fields, name) for row in rows]


def differ(expected: Mapping[Row, int], actual: Mapping[Row, int], fields: tuple[Field, ...]) -> str:
    """How two multisets differ, or nothing. Doubles may differ in their last digits, and decimals in their last digit.

    SQL fixes no order of addition, and DuckDB's averages of decimals are doubles.
    """
    rest = _plain_rows(expected, fields) - _plain_rows(actual, fields)
    missing = [row for row, weight in rest.items() for _ in range(weight)]
    extra = defaultdict(list)
    for row, weight in rest.items():
        extra[_exact(row, fields)].extend([row] * -weight)
    lines = []
    for row in missing:
        others = extra[_exact(row, fields)]
        twin = next((other for other in others if _alike(row, other, fields)), None)
        if twin is None:
            lines.append(f"missing {row}")
        else:
            others.remove(twin)
    lines += [f"extra   {row}" for others in extra.values() for row in others]
    return "\n".join(lines)


def _plain_rows(rows: Mapping[Row, int], fields: tuple[Field, ...]) -> ZSet:
    """Rows with all arrays as tuples: who computes a row decides from which length on they are trees."""
    if not any(array_form(f.type) for f in fields):
        return ZSet(rows)
    return ZSet.summed((_plain(row), weight) for row, weight in rows.items())


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple | ArrayTree) else value


def _exact(row: Row, fields: tuple[Field, ...]) -> Row:
    return tuple(None if _inexact(f.type) else v for v, f in zip(row, fields, strict=True))


def _inexact(type_: Type) -> bool:
    return isinstance(type_, (t.Double, t.Decimal))


def _alike(left: Row, right: Row, fields: tuple[Field, ...]) -> bool:
    return all(_close(a, b, f.type) for a, b, f in zip(left, right, fields, strict=True) if _inexact(f.type))


def _close(left: Any, right: Any, type_: Type) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(type_, t.Decimal) and isinstance(left, Decimal) and isinstance(right, Decimal):
        return left == right
    last_digit = 10.0**-type_.scale if isinstance(type_, t.Decimal) else 1e-12
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=last_digit) or (left != left and right != right)
