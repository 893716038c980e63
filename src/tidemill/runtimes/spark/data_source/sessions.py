"""Requirements of a session before it reads a warehouse, and relations as its temporary views."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tidemill.runtimes.spark.lowering.sql_text import quote
from tidemill.runtimes.spark.sessions.session import activate
from tidemill.runtimes.spark.sessions.worker_packages import require_packages

__all__ = ["create_view", "prepare", "register_source", "temporary_views"]


def prepare(spark: SparkSession) -> None:
    """Send Tidemill to the workers of a cluster; those of this machine have it."""
    require_packages(spark, ())


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source with a session, in place of an earlier one of its name, and make it the active session.

    One that Spark has found by itself, by the package ``pyspark_tidemill``, cannot be replaced; it is the same.
    """
    activate(spark)
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def temporary_views(spark: SparkSession) -> set[str]:
    """The names of the temporary views that a session has."""
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


def create_view(spark: SparkSession, name: str, folder: str, relation: str) -> None:
    """A temporary view that reads a relation of a warehouse, as of its last epoch whenever a query runs."""
    frame = spark.read.format("tidemill").options(warehouse=folder, fresh=True).load(relation)
    frame.createOrReplaceTempView(quote(name))
