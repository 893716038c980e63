"""The commands that run declarative pipelines, ``tidemill pipelines run`` and ``spark-pipelines run``, on one project.

The eight views are one file, and so is the specification. Sources differ: ours are the Delta tables, as a project with
the jar would read them, and those of Spark, which has no jar here, the Parquet files that together are their newest
version. Both write Parquet.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import tidemill
from benchmarks.lake.lakes import DeltaLake, Lake
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

sources = json.loads(Path("sources.json").read_text())


def declare(name):
    @dp.temporary_view(name=name)
    def read():
        return {read}


for name in sources:
    declare(name)
"""

DELTA = 'spark.read.format("delta").load(sources[name])'
FILES = "spark.read.parquet(*sources[name])"


def write_project(folder: Path, read: str, sources: Mapping[str, object]) -> None:
    """Write a project: the text of the views is that which a warehouse gets, and ``read`` reads a source."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=(folder / "storage").as_uri()))
    (folder / "transformations" / "sources.py").write_text(SOURCES.format(read=read))
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in VIEWS.items()]
    (folder / "transformations" / "views.sql").write_text("\n".join(views))
    (folder / "sources.json").write_text(json.dumps(sources))


class TidemillPipeline:
    """The project in ``folder``, which Tidemill refreshes. The tables are where Spark's would be."""

    def __init__(self, lake: DeltaLake, folder: Path) -> None:
        self._folder = folder
        self.tables = folder / "spark-warehouse"
        write_project(folder, DELTA, {name: lake.location(name) for name in TABLES})

    def run(self) -> float:
        """Seconds of ``tidemill pipelines run``, from the start of its process to its end."""
        command = [sys.executable, "-m", "tidemill", "pipelines", "run", "--quiet"]
        environment = os.environ | {"PYTHONPATH": str(Path(tidemill.__file__).parents[1])}  # this very Tidemill
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, env=environment)
        return time.perf_counter() - start


def run_by_spark(lake: Lake, folder: Path) -> tuple[float, float]:
    """Seconds of ``spark-pipelines run`` from the start of its process, and of its run alone.

    Each run makes its tables anew: the catalog of a session ends with it.
    """
    write_project(folder, FILES, {name: lake.files(name) for name in TABLES})
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
