"""The format ``tidemill`` in a session of Spark."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidemill.engine.boundary import public_function
from tidemill.model.errors import SetupError

if TYPE_CHECKING:
    from tidemill.runtimes.spark.execution.spark_types import SparkSession

__all__ = ["register"]


@public_function
def register(spark: SparkSession) -> None:
    """Register the format ``tidemill`` with a session, so that it reads and writes warehouses by their folders."""
    _require_data_sources()
    from tidemill.engine.data_source.source import TidemillSource
    from tidemill.runtimes.spark.data_source.sessions import prepare, register_source

    prepare(spark)
    register_source(spark, TidemillSource)


def _require_data_sources() -> None:
    if find_spec("pyspark.sql.datasource") is None:
        raise SetupError(
            "this version of Spark has no data sources in Python",
            detail="Spark has them since 4.0.",
            hint="Install pyspark 4.0 or later, or read a view with view.df().",
        )
