"""The package by which Spark finds the format ``tidemill`` without ``register``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

import pytest

import tidemill

pytest.importorskip("pyspark.sql.datasource")

READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(sorted(row.id for row in spark.read.format("tidemill").option("warehouse", sys.argv[1]).load("t").collect()))
"""


def test_what_spark_looks_for() -> None:
    from pyspark import cloudpickle
    from pyspark.sql.datasource import DataSource

    import pyspark_tidemill
    from tidemill.engine.data_source.source import TidemillSource

    assert "pyspark_tidemill" in {module.name for module in iter_modules()}
    found = cloudpickle.loads(cloudpickle.dumps(pyspark_tidemill.DefaultSource))
    assert issubclass(found, DataSource) and found.name() == TidemillSource.name()
    assert isinstance(found(options={"warehouse": "w", "path": "t"}), TidemillSource)


@pytest.mark.spark
@pytest.mark.long
def test_a_session_that_registered_nothing(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT)")
        wh.sql("INSERT INTO t VALUES (1), (2)")
    source = Path(tidemill.__file__).parents[1]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(source)}
    found = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "w")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.stdout.strip().endswith("[1, 2]"), found.stderr[-2000:]
