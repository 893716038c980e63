"""Pipelines beside Spark itself: translated functions, recomputed datasets, and ``spark-pipelines run``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipelines.project import PipelineProject, as_rows
from tests.pipelines.test_pipelines import FIRST, SHOP_PY, SHOP_SQL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FUNCTIONS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F, Window

def orders():
    return spark.read.parquet("LAKE/orders")

def people():
    return spark.read.parquet("LAKE/people")

@dp.materialized_view
def filtered():
    o = orders()
    few = o.filter((o.amount > 5) & o.customer.isin("ann", "bob"))
    return few.select(o.id, (F.col("amount") * 2 - 1).alias("twice"))

@dp.materialized_view
def joined():
    o, p = orders(), people()
    both = o.join(p, o.customer == p.name, "left")
    return both.select(o.id, p["city"], F.coalesce(p.city, F.lit("?")).alias("known"))

@dp.materialized_view
def using():
    return orders().join(people().withColumnRenamed("name", "customer"), ["customer"]).drop("amount")

@dp.materialized_view
def both_sides():
    o, p = orders(), people()
    return o.filter(o.amount > 5).join(p, o.customer == p.name).drop(p.name).where(F.col("city") != "rome")

@dp.materialized_view
def semi():
    return orders().join(people(), F.col("customer") == F.col("name"), "left_anti").select("id")

@dp.materialized_view
def grouped():
    totals = orders().groupBy("customer").agg(
        F.sum("amount").alias("total"), F.count("*"), F.avg("amount"), F.countDistinct("id").alias("ids"), F.max("id")
    )
    size = F.when(F.col("total") > 30, "large").when(F.col("total") > 10, "medium").otherwise("small")
    return totals.withColumn("size", size)

@dp.materialized_view
def counted():
    return orders().groupBy("customer").count().filter("count > 1")

@dp.materialized_view
def rolled():
    return orders().rollup("customer").agg(F.sum("amount").alias("total"))

@dp.materialized_view
def newest():
    by_amount = Window.partitionBy("customer").orderBy(F.col("amount").desc(), "id")
    return orders().withColumn("rank", F.row_number().over(by_amount)).filter("rank = 1").drop("rank")

@dp.materialized_view
def running():
    frame = Window.partitionBy("customer").orderBy("id").rowsBetween(Window.unboundedPreceding, 0)
    return orders().select("id", F.sum("amount").over(frame).alias("so_far"), F.lag("amount").over(
        Window.partitionBy("customer").orderBy("id")).alias("before"))

@dp.materialized_view
def united():
    o = orders()
    others = people().select(F.col("name").alias("customer"), F.lit(0).alias("id"))
    return o.select("id", "customer").unionByName(others).distinct()

@dp.materialized_view
def subtracted():
    return orders().select("customer").exceptAll(people().select("name")).union(people().select("city"))

@dp.materialized_view
def best():
    return orders().orderBy(F.desc("amount"), "id").limit(2).selectExpr("id", "upper(customer) AS who")

@dp.materialized_view
def cast():
    o = orders()
    texts = [o.amount.cast("string").alias("t"), F.lit("it's \\\\ so").alias("s"), F.lit(None).cast("int").alias("n")]
    return o.select(*texts, F.to_date(F.lit("2024-01-31")).alias("day"), F.lit(1.5).alias("d"),
                    F.expr("amount % 7").alias("m"), (-F.col("id")).alias("minus"))

@dp.materialized_view
def aliased():
    o = orders()
    later = (F.col("a.customer") == F.col("b.customer")) & (F.col("a.id") < F.col("b.id"))
    return o.alias("a").join(o.alias("b"), later).select("a.id", F.col("b.id").alias("other"))

@dp.materialized_view
def arrays():
    lists = orders().groupBy("customer").agg(F.sort_array(F.collect_list("amount")).alias("amounts"))
    return lists.select("customer", F.transform("amounts", lambda x: x + 1).alias("more"), F.size("amounts").alias("n"))

@dp.materialized_view
def sql():
    totals = "SELECT customer, SUM(amount) AS total FROM parquet.`LAKE/orders` GROUP BY customer"
    return spark.sql(totals).where("total > 10")

@dp.materialized_view
def numbers():
    return spark.range(2, 9, 3).toDF("n")
"""

RECOMPUTED = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

@F.udf(LongType())
def plus_one(n):
    return n + 1

@dp.materialized_view
def more():
    spend = spark.table("spend")
    rest = [F.col(name) for name in spend.columns if name == "n"]
    return spend.select("customer", plus_one("total").alias("total"), *rest)

@dp.materialized_view
def most():
    return spark.table("more").groupBy().agg(F.max("total").alias("most"))
"""


def add_sources(project: PipelineProject) -> None:
    import pyarrow as pa

    project.add("orders", "1", FIRST)
    project.add(
        "people", "1", [("ann", "rome"), ("bob", "oslo")], pa.schema([("name", pa.string()), ("city", pa.string())])
    )


def functions_of(file: Path, spark: SparkSession) -> dict[str, Any]:
    """The functions of a file, called in this session as plain ones."""
    import pyspark.pipelines as dp

    found: dict[str, Any] = {}
    spec = importlib.util.spec_from_file_location("functions", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dp, "materialized_view", lambda function: found.setdefault(function.__name__, function))
        spec.loader.exec_module(module)
    return found


@pytest.mark.spark
def test_functions_give_what_spark_gives(project: PipelineProject, interpreted_spark: SparkSession) -> None:
    add_sources(project)
    project.write(a_py=FUNCTIONS)
    planned = project.plan()
    assert {one.dataset: one.reason for one in planned.datasets if one.how != "incremental"} == {}
    project.run()
    project.add("orders", "2", [(5, "bob", 50), (6, "di", None)])
    project.run()
    for name, function in functions_of(project.folder / "transformations" / "a.py", interpreted_spark).items():
        frame: DataFrame = function()
        assert project.rows(name) == as_rows(frame.toArrow()), name
        columns = tuple(column.lower() for column in frame.columns)
        import pyarrow.dataset as ds

        assert tuple(ds.dataset(project.folder / "spark-warehouse" / name).schema.names) == columns, name


@pytest.mark.spark
def test_what_cannot_be_maintained_is_recomputed(
    project: PipelineProject, spark: SparkSession, planned: Counter[str]
) -> None:
    add_sources(project)
    project.write(
        a_sql=SHOP_SQL.split("CREATE STREAMING")[0]
        + "CREATE MATERIALIZED VIEW dice AS SELECT customer, floor(rand() * 0) AS zero FROM spend",
        b_py=RECOMPUTED,
    )
    report = project.run(spark=spark)
    assert (report["more"].how, report["most"].how, report["dice"].how) == ("recomputed", "created", "recomputed")
    assert (planned["spend"], planned["more"]) == (1, 1), "only what waits for columns is planned again"
    assert project.rows("more") == [("ann", 31, 1), ("bob", 21, 1), ("cy", 41, 1)]
    assert project.rows("most") == [(41,)]
    project.add("orders", "2", [(5, "bob", 50)])
    report = project.run(spark=spark)
    assert (report["more"].changed, report["most"].how) == (2, "incremental")
    assert project.rows("more") == [("ann", 31, 1), ("bob", 71, 2), ("cy", 41, 1)]
    assert project.rows("most") == [(71,)]
    assert len(project.rows("dice")) == 3


@pytest.mark.long
def test_spark_pipelines_gives_the_same_tables(project: PipelineProject) -> None:
    from tidemill.runtimes.spark.sessions.java import java_home

    add_sources(project)
    project.write(a_sql=SHOP_SQL, b_py=SHOP_PY)
    project.run()
    ours = {name: project.rows(name) for name in ("spend", "raw", "often")}
    amounts = project.rows("amounts", ["id", "amount"])
    other = PipelineProject(project.folder.parent / "spark")
    spec = "name: shop\nstorage: file://STORAGE\nlibraries:\n  - glob:\n      include: transformations/**\n"
    other.write(a_sql=SHOP_SQL, b_py=SHOP_PY)
    (other.folder / "spark-pipeline.yml").write_text(spec.replace("STORAGE", str(other.folder / "storage")))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home())}
    command = [str(Path(sys.executable).parent / "spark-pipelines"), "run"]
    ran = subprocess.run(command, cwd=other.folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert {name: other.rows(name) for name in ours} == ours
    assert other.rows("amounts", ["id", "amount"]) == amounts
