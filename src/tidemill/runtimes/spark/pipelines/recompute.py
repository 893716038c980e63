"""Datasets that have no text in SQL, or none that Tidemill maintains: computed by Spark as a whole."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.runtimes.spark.pipelines.internals import part

__all__ = ["computed_rows", "spark_error"]


def computed_rows(spark: SparkSession, source: str | tuple[str, str], settings: Mapping[str, str]) -> pa.Table:
    """The rows of a query, or of what a function of a Python file returns: that of a file and of a flow's name."""
    before = {key: spark.conf.get(key, None) for key in settings if spark.conf.isModifiable(key)}
    try:
        for key in before:
            spark.conf.set(key, settings[key])
        frame = spark.sql(source) if isinstance(source, str) else _function(spark, *source)()
        return frame.toArrow()
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _function(spark: SparkSession, file: str, name: str) -> Any:
    """The function of a flow: its file is run once more, with this session."""

    class Functions(part("pyspark.pipelines.graph_element_registry", "GraphElementRegistry")):  # type: ignore[misc]
        def __init__(self) -> None:
            self.found: dict[str, Any] = {}

        def register_output(self, output: Any) -> None:
            return None

        def register_flow(self, flow: Any) -> None:
            self.found[flow.name] = flow.func

        def register_auto_cdc_flow(self, flow: Any) -> None:
            return None

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            return None

    registry = Functions()
    with part("pyspark.pipelines.graph_element_registry", "graph_element_registration_context")(registry):
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["spark"] = spark
        spec.loader.exec_module(module)
    return registry.found[name]


def spark_error(error: Exception) -> str | None:
    """Spark's message of an error of its own; None for others."""
    return str(error).split("\n\nJVM stacktrace")[0][:1000] if isinstance(error, PySparkException) else None
