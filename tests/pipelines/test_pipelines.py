"""Projects of declarative pipelines: loaded as they are, refreshed, appended, published, refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tidemill
from tests.pipelines.project import ORDERS, PipelineProject, Row, as_rows
from tidemill.model.errors import NameTaken, SetupError, TidemillError, UnknownName, Unsupported

SHOP_SQL = """
CREATE TEMPORARY VIEW big AS SELECT * FROM parquet.`LAKE/orders` WHERE amount > 10;
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM big GROUP BY customer;
CREATE STREAMING TABLE amounts;
CREATE FLOW plain AS INSERT INTO amounts BY NAME SELECT amount, id FROM STREAM raw;
"""

SHOP_PY = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def raw():
    return spark.readStream.format("parquet").schema("id INT, customer STRING, amount BIGINT").load("LAKE/orders")

@dp.materialized_view
def often():
    return spark.read.table("spend").where(F.col("n") > 1).withColumn("mean", F.col("total") / F.col("n"))

@dp.append_flow(target="amounts")
def doubled():
    return spark.readStream.table("raw").select("id", (F.col("amount") * 2).alias("amount"))
"""

FIRST = [(1, "ann", 5), (2, "bob", 20), (3, "ann", 30), (4, "cy", 40)]


@pytest.fixture
def shop(project: PipelineProject) -> PipelineProject:
    project.add("orders", "1", FIRST)
    return project.write(a_sql=SHOP_SQL, b_py=SHOP_PY)


def test_a_project_is_refreshed_by_its_changes(shop: PipelineProject, planned: Counter[str]) -> None:
    report = shop.run()
    assert planned == dict.fromkeys(("big", "spend", "raw", "amounts", "often"), 1)
    assert {one.dataset: one.how for one in report.datasets} == {
        "big": "inlined", "spend": "created", "raw": "created", "amounts": "created", "often": "created",
    }  # fmt: skip
    assert shop.rows("spend") == [("ann", 30, 1), ("bob", 20, 1), ("cy", 40, 1)]
    assert shop.rows("often") == []
    # Columns are those of the first flow; the other one is put in by name.
    assert shop.rows("amounts") == sorted([(a, i) for i, _, a in FIRST] + [(a * 2, i) for i, _, a in FIRST], key=repr)
    assert {one.how for one in shop.run().datasets} == {"inlined", "unchanged"}
    shop.add("orders", "2", [(5, "bob", 50), (6, "di", 1)])
    report = shop.run()
    assert (report["spend"].how, report["spend"].changed, report["spend"].rows) == ("incremental", 2, 3)
    assert (report["raw"].how, report["raw"].changed, report["raw"].rows) == ("appended", 2, 6)
    assert shop.rows("often") == [("bob", 70, 2, 35.0)]
    assert len(shop.rows("amounts")) == 12


def test_a_full_refresh_gives_the_same_tables(shop: PipelineProject) -> None:
    shop.run()
    shop.add("orders", "2", [(5, "bob", 50)])
    shop.run()
    before = {name: shop.rows(name) for name in ("spend", "raw", "amounts", "often")}
    assert {one.how for one in shop.run(full_refresh_all=True).datasets} == {"inlined", "created"}
    assert {name: shop.rows(name) for name in before} == before
    shop.run(full_refresh=["raw"])
    with pytest.raises(Unsupported, match='flow "plain" cannot go on reading "raw"'):
        shop.run()
    shop.run(full_refresh=["raw", "amounts"])
    assert {name: shop.rows(name) for name in before} == before


def test_only_what_is_named_is_refreshed(shop: PipelineProject) -> None:
    shop.run()
    shop.add("orders", "2", [(5, "bob", 50)])
    report = shop.run(refresh=["spend"])
    assert (report["spend"].how, report["raw"].how, report["often"].how) == ("incremental", "excluded", "excluded")
    assert (len(shop.rows("raw")), shop.rows("often")) == (4, [])
    shop.run()
    assert (len(shop.rows("raw")), shop.rows("often")) == (5, [("bob", 70, 2, 35.0)])
    with pytest.raises(UnknownName, match="no dataset"):
        shop.run(refresh=["nothing"])
    with pytest.raises(SetupError, match="goes with neither"):
        shop.run(refresh=["spend"], full_refresh_all=True)


def test_rows_stay_in_a_streaming_table_and_leave_a_view(shop: PipelineProject) -> None:
    shop.add("orders", "2", [(5, "bob", 50)])
    shop.run()
    (shop.lake / "orders" / "1.parquet").unlink()
    shop.run()
    assert shop.rows("spend") == [("bob", 50, 1)]
    assert len(shop.rows("raw")) == 5
    shop.add("orders", "2", [(5, "bob", 51)])
    with pytest.raises(Unsupported, match="cannot go on reading") as refused:
        shop.run()
    assert "--full-refresh raw" in str(refused.value.hint)


def test_a_changed_definition_is_made_anew_with_what_reads_it(shop: PipelineProject) -> None:
    shop.run()
    shop.write(a_sql=SHOP_SQL.replace("amount > 10", "amount > 1"))
    report = shop.run()
    assert (report["spend"].how, report["often"].how, report["raw"].how) == ("created", "created", "unchanged")
    assert shop.rows("often") == [("ann", 35, 2, 17.5)]
    shop.write(a_sql=SHOP_SQL.replace("SELECT amount, id", "SELECT amount"))
    with pytest.raises(Unsupported, match="columns"):
        shop.run()


def test_a_run_that_was_cut_short_is_finished(shop: PipelineProject, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.engine.warehouse import Warehouse

    apply = Warehouse.apply
    left = [0]

    def failing(self: Warehouse, *given: object, **options: object) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return apply(self, *given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Warehouse, "apply", failing)
    for calls in range(100):
        left[0] = calls
        try:
            shop.run()
            break
        except KeyboardInterrupt:
            continue
    assert calls > 3
    assert shop.rows("raw") == FIRST
    assert len(shop.rows("amounts")) == 8


def test_results_and_sources_in_delta(project: PipelineProject) -> None:
    import pyarrow as pa

    project.write(
        a_sql="""
        CREATE MATERIALIZED VIEW spend USING delta
          AS SELECT customer, SUM(amount) AS total FROM delta.`LAKE/d` GROUP BY customer;
        CREATE MATERIALIZED VIEW copied USING delta AS SELECT amount FROM delta.`LAKE/d`;
        CREATE STREAMING TABLE all_orders USING delta AS SELECT id, amount FROM STREAM delta.`LAKE/d`;
        """
    )
    lake, tables = str(project.lake / "d"), project.folder / "spark-warehouse"

    def published(name: str) -> list[Row]:
        return as_rows(pa.table(DeltaTable(tables / name).scan()))

    write_deltalake(lake, pa.table([[1, 2], ["ann", "bob"], [5, 6]], schema=ORDERS))
    project.run()
    write_deltalake(lake, pa.table([[3], ["ann"], [7]], schema=ORDERS), mode="append")
    report = project.run()
    assert (report["spend"].how, report["spend"].changed) == ("incremental", 2)
    assert published("spend") == [("ann", 12), ("bob", 6)]
    assert published("copied") == [(5,), (6,), (7,)]
    assert published("all_orders") == [(1, 5), (2, 6), (3, 7)]
    assert DeltaTable(tables / "all_orders").history(1)[0]["operationParameters"]["mode"] == "Append"
    DeltaTable(lake).delete("id = 1")
    with pytest.raises(Unsupported, match="cannot go on reading"):
        project.run()
    project.run(full_refresh=["all_orders"])
    assert published("all_orders") == [(2, 6), (3, 7)]


def test_sinks_schemas_and_settings(project: PipelineProject) -> None:
    project.add("orders", "1", FIRST)
    project.write(
        a_py="""
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
LIMIT = int(spark.conf.get("shop.limit", "0"))

dp.create_sink("out", "parquet", {"path": "LAKE/out"})

@dp.append_flow(target="out")
def large():
    orders = spark.readStream.schema("id INT, customer STRING, amount BIGINT").parquet("LAKE/orders")
    return orders.where(f"amount > {LIMIT}")
""",
        b_sql="""
        SET spark.sql.shuffle.partitions = 4;
        USE SCHEMA sales;
        CREATE MATERIALIZED VIEW spend (customer STRING, total BIGINT) COMMENT 'x' TBLPROPERTIES ('a' = 'b')
          AS SELECT customer, SUM(amount) AS total FROM parquet.`LAKE/orders` GROUP BY customer;
        CREATE MATERIALIZED VIEW best AS SELECT spend.customer FROM sales.spend ORDER BY total DESC LIMIT 1
        """,
        settings='configuration:\n  shop.limit: "25"\n',
    )
    project.run()
    assert project.rows("sales.db/best") == [("cy",)]
    out = [one for one in (project.lake / "out").iterdir() if one.suffix == ".parquet"]
    assert len(out) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT nope FROM parquet.`LAKE/orders`", 'there is no column "nope"'),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM nowhere", 'there is no table "nowhere"'),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM w; CREATE MATERIALIZED VIEW w AS SELECT * FROM v", "in a circle"),
        ("CREATE MATERIALIZED VIEW v AS SELECT FROM", "cannot be read"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a; CREATE MATERIALIZED VIEW v AS SELECT 2 AS a", "defined twice"),
        ("CREATE MATERIALIZED VIEW v (b INT) AS SELECT 1 AS a", "not those of its query"),
        ("CREATE MATERIALIZED VIEW v USING orc AS SELECT 1 AS a", "cannot be written as orc"),
        ("CREATE MATERIALIZED VIEW v PARTITIONED BY (a) AS SELECT 1 AS a", "cannot be written by partitions"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM STREAM parquet.`LAKE/orders`", "cannot read a stream"),
        ("CREATE STREAMING TABLE t", "nothing fills"),
        ("CREATE STREAMING TABLE t AS SELECT * FROM parquet.`LAKE/orders`", "reads no stream"),
        ("CREATE STREAMING TABLE t AS SELECT COUNT(*) AS n FROM STREAM parquet.`LAKE/orders`", "an aggregate"),
        ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1 AS a", "does not define"),
        ("CREATE TABLE t (a INT)", "does not take this statement"),
        ("INSERT INTO t VALUES (1)", "does not take this statement"),
        ("CREATE STREAMING TABLE t; CREATE FLOW f AS AUTO CDC INTO t FROM STREAM r KEYS (id)", "needs SEQUENCE BY"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(project: PipelineProject, text: str, message: str) -> None:
    project.add("orders", "1", FIRST)
    project.write(a_sql=text)
    with pytest.raises(TidemillError, match=message) as refused:
        project.run()
    assert "transformations/a.sql:1" in str(refused.value.where)
    assert not (project.folder / "storage").exists() and not (project.folder / "spark-warehouse").exists()


def test_rules_of_spark_apply(project: PipelineProject) -> None:
    project.write(settings="unknown: 1\n")
    with pytest.raises(SetupError, match="PIPELINE_SPEC_UNEXPECTED_FIELD"):
        project.plan()
    project.write(a_py="spark.conf.set('a', 'b')")
    with pytest.raises(SetupError, match="SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"):
        project.plan()
    project.write(a_py="from pyspark import pipelines as dp\n@dp.materialized_view\ndef v():\n    return 1 / 0\n")
    with pytest.raises(SetupError, match="ZeroDivisionError") as refused:
        project.plan()
    assert "a.py:2" in str(refused.value.where)
    project.write(a_py="rows = spark.table('t').count()")
    with pytest.raises(SetupError, match="only be loaded while Spark runs") as refused:
        project.plan()
    assert refused.value.where == "transformations/a.py:1"


def test_a_table_that_spark_has_written_is_replaced_or_refused(shop: PipelineProject) -> None:
    for name in ("spend", "raw"):
        (shop.folder / "spark-warehouse" / name).mkdir(parents=True)
        (shop.folder / "spark-warehouse" / name / "part-00000-a.snappy.parquet").write_bytes(b"of Spark")
    with pytest.raises(NameTaken, match="not written by Tidemill"):
        shop.run()
    shop.run(full_refresh=["raw"])
    shop.run()
    assert (len(shop.rows("spend")), shop.rows("raw")) == (3, FIRST)


def test_why_functions_are_recomputed(project: PipelineProject) -> None:
    project.add("orders", "1", FIRST)
    project.write(
        settings="",
        a_py="""
from pyspark import pipelines as dp
from pyspark.sql import functions as F
orders = spark.read.parquet("LAKE/orders")

@dp.materialized_view
def by_columns():
    return orders.select(*[F.col(name) for name in orders.columns])

@dp.materialized_view
def any_rows():
    return orders.limit(2)

@dp.materialized_view
def local():
    return spark.range(3).join(orders, "id").dropDuplicates(["customer"])

@dp.materialized_view
def zones():
    return spark.sql("SELECT id FROM parquet.`LAKE/orders`")

@dp.materialized_view(spark_conf={"spark.sql.ansi.enabled": "false"})
def lenient():
    return orders.select("id")

@dp.materialized_view
def after():
    return spark.table("local").select("id")
""",
    )
    report = project.plan()
    assert {one.dataset: (one.how, one.reason) for one in report.datasets} == {
        "by_columns": ("recomputed", "it asks for rows, or for something else that only a running Spark has"),
        "any_rows": ("recomputed", "limit() without a sort directly below it takes any rows"),
        "local": ("recomputed", "dropDuplicates() of some columns keeps any row of each group"),
        "zones": ("incremental", ""),
        "lenient": ("recomputed", "it is defined under spark.sql.ansi.enabled = false"),
        "after": ("incremental", 'it reads "local", whose columns are known once it has been computed'),
    }


def test_a_project_beside_python(shop: PipelineProject, tmp_path: Path) -> None:
    assert tidemill.run_pipeline(shop.folder / "spark-pipeline.yml")["spend"].rows == 3
    assert tidemill.plan_pipeline(shop.folder)["spend"].reads == "big"
    with pytest.raises(SetupError, match="no such file"):
        tidemill.run_pipeline(tmp_path / "nothing.yml")
