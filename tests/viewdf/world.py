"""What the tests of this folder read: a stream of minutes, a table of hours, a table without partitions."""

from __future__ import annotations

from tidemill.algebra.relational.relations import Project
from tidemill.algebra.relational.time_partitions import TimePartitioned
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import TranslatedQuery, parse, translate
from tidemill.model.schema import Table

MINUTE = 60_000_000

DECLARED = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT, xs ARRAY<INT>) PARTITION BY ts EVERY 1 MINUTE;
CREATE TABLE hours (day DATE, k STRING, at TIMESTAMP, price DECIMAL(10, 2)) PARTITION BY at EVERY 1 HOUR;
CREATE TABLE plain (k STRING, name STRING)
"""


def _tables() -> dict[str, Table]:
    statements = [statement for statement in parse(DECLARED) if isinstance(statement, CreateTable)]
    return {statement.table.name: statement.table for statement in statements}


TABLES = _tables()


def translated(definition: str, name: str = "v") -> TranslatedQuery:
    """A view by partitions over these tables."""
    relations = {table.name: table.fields for table in TABLES.values()}
    cut = {table.name: table.partitioning for table in TABLES.values() if table.partitioning is not None}
    return translate(definition, relations, name=name, partitionings=cut)


def partitioned(definition: str) -> TimePartitioned:
    """How its partitions are made."""
    relation = translated(definition).relation
    assert isinstance(relation, Project) and isinstance(relation.input, TimePartitioned)
    return relation.input
