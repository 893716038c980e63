"""The syntax of definitions by partitions: subscripts, names, semicolons, lengths."""

from __future__ import annotations

import pytest

from tests.viewdf.world import MINUTE, TABLES, partitioned, translated
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.time_partitions import Subscript
from tidemill.algebra.relational.walk import walk_all
from tidemill.compiler.frontends.script.statements import CreateTable, CreateView
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.frontends.viewdf.definition import PartitionedView
from tidemill.engine.catalog.ddl import ddl
from tidemill.model.schema import Partitioning
from tidemill.model.types import BIGINT, TIMESTAMP, Decimal


@pytest.mark.parametrize(
    ("written", "slice_"),
    [
        ("s[i]", "s[i]"),
        ("s [ I ]", "s[i]"),
        ("s[i-60]", "s[i-60]"),
        ("s[(i) - 60 + 1]", "s[i-59]"),
        ("s[-1 + i]", "s[i-1]"),
        ("s[i-59..i]", "s[i-59..i]"),
        ("s[i - 59 .. i - 0]", "s[i-59..i]"),
        ("s[.. i]", "s[..i]"),
        ("s[..i-2*3]", "s[..i-6]"),
        ("s", "s[..i]"),
    ],
)
def test_subscripts(written: str, slice_: str) -> None:
    assert [one.name for one in partitioned(f"UPDATE v[i] AS SELECT n FROM {written}").slices] == [slice_]


@pytest.mark.parametrize(
    ("written", "every", "slice_"),
    [
        ("s[5*i .. 5*i+4]", "5 MINUTES", "s[5*i..5*i+4]"),
        ("s[i*5..(i+1)*5-1]", "5 MINUTES", "s[5*i..5*i+4]"),
        ("s", "5 MINUTES", "s[..5*i+4]"),
        ("s[3*i/2 .. 3*i/2+1]", "90 SECONDS", "s[3*i/2..3*i/2+1]"),
        ("hours[i/60]", "1 MINUTE", "hours[i/60]"),
        ("hours[i/6/10 - 1 .. i/60]", "1 MINUTE", "hours[i/60-1..i/60]"),
        ("hours", "1 MINUTE", "hours[..i/60]"),
        ("s[i/2]", "30 SECONDS", "s[i/2]"),
    ],
)
def test_subscripts_of_other_lengths(written: str, every: str, slice_: str) -> None:
    made = partitioned(f"UPDATE v[i] AS SELECT k FROM {written} PARTITION BY {every}")
    assert [one.name for one in made.slices] == [slice_]


def test_the_variable_is_the_one_that_is_named() -> None:
    made = partitioned("INITIALIZE v[k] AS SELECT n FROM s[k] UPDATE v[minute] AS SELECT n FROM s[minute-1]")
    assert [slice_.high for slice_ in made.slices] == [Subscript(), Subscript(plus=-1)]


def test_elements_of_arrays_are_no_partitions() -> None:
    made = partitioned(
        "UPDATE v[i] AS SELECT xs[0] AS a, EXTRACT(DAY FROM s.ts) AS b, ARRAY(n, xs[1]) AS c FROM s[i] "
        "WHERE xs[2] IS DISTINCT FROM xs[3] AND n IN (SELECT xs[n] FROM s[i-1])"
    )
    assert [slice_.name for slice_ in made.slices] == ["s[i]", "s[i-1]"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.n FROM s[i]",
        "SELECT s[i].n FROM s[i]",
        "SELECT t.n FROM s[i] AS t",
        "SELECT n FROM (s[i] CROSS JOIN plain)",
        "SELECT s[i].n FROM s[i] JOIN s[i-1] ON s[i].k = s[i-1].k",
        "SELECT a.n FROM s[i] AS a, s[i-1] AS b WHERE a.k = b.k",
        "SELECT s.n FROM s[i] WHERE EXISTS (SELECT 1 FROM s[i-1] AS b WHERE b.k = s.k)",
        "WITH t AS (SELECT * FROM s[i]) SELECT t.n FROM t",
        "FROM s[i] SELECT n",
    ],
)
def test_tables_are_called_as_one_likes(query: str) -> None:
    assert partitioned(f"UPDATE v[i] AS {query}").slices[0].name == "s[i]"


def test_what_with_calls_a_relation_hides_it() -> None:
    made = partitioned("UPDATE v[i] AS WITH plain AS (SELECT k FROM s[i]) SELECT k FROM plain")
    assert [feed.name for feed in made.feeds] == ["s"]


def test_semicolons_within_a_definition() -> None:
    script = """
        CREATE VIEW v AS INITIALIZE v[k] AS SELECT n FROM s[k]; UPDATE v[i] AS SELECT n FROM v[i-1];
        PARTITION BY 1 MINUTE; UPDATE plain SET name = 'x';
        CREATE OR REPLACE MATERIALIZED VIEW w AS UPDATE w[i] AS SELECT n FROM s[i];;
        SHOW PARTITIONS w
    """
    statements = parse(script)
    assert [type(one).__name__ for one in statements] == ["CreateView", "Update", "CreateView", "ShowPartitions"]
    view = statements[0]
    assert isinstance(view, CreateView) and isinstance(view.tree, PartitionedView)
    assert view.tree.every == MINUTE
    assert view.query.startswith("INITIALIZE v[k]") and view.query.endswith("PARTITION BY 1 MINUTE")


def test_the_stored_text_means_the_same() -> None:
    text = "INITIALIZE v[k] AS SELECT k, n FROM s[k-1..k]; UPDATE v[i] AS SELECT v.* FROM v[i-1]; PARTITION BY 1 MINUTE"
    (view,) = parse(f"CREATE VIEW v AS {text}")
    assert isinstance(view, CreateView)
    assert translated(view.query).relation == translated(text).relation


def test_partitioning_of_a_table_is_part_of_its_declaration() -> None:
    assert TABLES["hours"].partitioning == Partitioning("at", 60 * MINUTE)
    for table in TABLES.values():
        (read,) = parse(ddl(table))
        assert isinstance(read, CreateTable) and read.table == table


def test_the_first_instant_stands_before_the_columns() -> None:
    made = translated("UPDATE v[i] AS SELECT k, n FROM s[i]")
    assert [f.name for f in made.relation.fields] == ["ts", "k", "n"]
    assert made.relation.fields[0].type == TIMESTAMP
    assert made.partitioning == Partitioning("ts", MINUTE, added=True)


def test_a_time_of_its_own_is_used() -> None:
    made = translated("UPDATE v[i] AS SELECT k, ts FROM s[i]")
    assert [f.name for f in made.relation.fields] == ["k", "ts"]
    assert made.partitioning == Partitioning("ts", MINUTE)


def test_both_queries_have_the_wider_types() -> None:
    made = partitioned(
        "INITIALIZE v[k] AS SELECT 1 AS n, CAST(1 AS DECIMAL(10, 2)) AS d FROM s[k] "
        "UPDATE v[i] AS SELECT CAST(v.n AS BIGINT), v.d + 1 FROM v[i-1], s[i]"
    )
    for body in (made.initialize, made.update):
        assert [f.type for f in body.fields] == [BIGINT, Decimal(38, 2)]
    (scan,) = (node for node in walk_all(made.update) if isinstance(node, Scan) and node.relation == "v[i-1]")
    assert [f.type for f in scan.fields] == [BIGINT, Decimal(38, 2)]


def test_a_column_may_be_called_as_the_number_is() -> None:
    made = translated("UPDATE v[i] AS SELECT n AS `partition` FROM s[i]")
    assert [f.name for f in made.relation.fields] == ["ts", "partition"]
    assert isinstance(made.relation, Project)
