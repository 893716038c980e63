"""The process that Spark forks Python workers from, with all loaded that they need: a worker's imports take seconds.

Spark runs it as a module, in place of ``pyspark.daemon``.
"""

from __future__ import annotations

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.runtimes.spark.lookup.lookup_task
import tidemill.runtimes.spark.lowering.python_udfs
import tidemill.storage.runs  # noqa: F401

if __name__ == "__main__":
    manager()
