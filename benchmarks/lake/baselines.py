"""Spark recomputing the eight views: in a session that is open, and by ``spark-pipelines run``.

This Spark has no jar of Delta or Iceberg. It reads the data files of the newest version, which together are the table
since nothing here writes deletion vectors, and it writes Parquet. With the jars it would do the same, and read and
write logs besides.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.lake.lakes import Lake
from benchmarks.tpch.data import TABLES
from benchmarks.tpch.views import VIEWS
from tidemill.runtimes.spark.sessions.java import java_home

SPECIFICATION = """
name: tpch
storage: {storage}
configuration:
  spark.sql.shuffle.partitions: "2"
libraries:
  - glob:
      include: transformations/**
"""

SOURCES = """
import json
from pathlib import Path

from pyspark import pipelines as dp

files = json.loads(Path("files.json").read_text())


def declare(name):
    @dp.temporary_view(name=name)
    def read():
        return spark.read.parquet(*files[name])


for name in files:
    declare(name)
"""
"""Stands where a project with the jars would have ``spark.read.format("delta").load(...)``."""


def overwrite_by_spark(session: Any, lake: Lake, folder: Path) -> float:
    """Seconds in which Spark reads the lake and overwrites eight tables in ``folder``."""
    files = {name: lake.files(name) for name in TABLES}
    start = time.perf_counter()
    for name in TABLES:
        session.read.parquet(*files[name]).createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        session.sql(query).write.mode("overwrite").parquet(str(folder / name))
    return time.perf_counter() - start


def write_project(folder: Path) -> None:
    """Write the project of ``spark-pipelines``: the text of the views is that which Tidemill gets."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=(folder / "storage").as_uri()))
    (folder / "transformations" / "sources.py").write_text(SOURCES)
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in VIEWS.items()]
    (folder / "transformations" / "views.sql").write_text("\n".join(views))


def run_pipelines(lake: Lake, folder: Path) -> tuple[float, float]:
    """Seconds of ``spark-pipelines run`` from the start of its process, and of its run alone.

    Each run makes its tables anew: the catalog of a session ends with it.
    """
    write_project(folder)
    (folder / "files.json").write_text(json.dumps({name: lake.files(name) for name in TABLES}))
    command = Path(sys.executable).with_name("spark-pipelines")
    environment = os.environ | {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    start = began = time.perf_counter()
    arguments = [str(command), "run", "--remote", "local[2]", "--conf", "spark.ui.enabled=false"]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if "Starting run" in line:
                began = time.perf_counter()
    if process.returncode:
        raise RuntimeError(f"spark-pipelines has failed:\n{''.join(lines[-50:])}")
    end = time.perf_counter()
    return end - start, end - began
