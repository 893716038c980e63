"""The process that a local Spark forks Python workers from, with all imported that they need.

Spark ends workers that were idle for a minute, and a new one would import for seconds before its first row. Spark runs
this as a module, in place of ``pyspark.daemon``.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.runtimes.spark.lowering.python_udfs
import tidemill.runtimes.spark.task_runtime  # noqa: F401

if __name__ == "__main__":
    manager()
