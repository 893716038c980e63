"""The process that a local Spark forks Python workers from, with all imported that lookups need.

Spark ends workers that were idle for a minute, and a new one would import for half a second before its first lookup.
Spark runs this as a module, in place of ``pyspark.daemon``.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.runtimes.spark.lookup.lookup_task
import tidemill.storage.runs  # noqa: F401

if __name__ == "__main__":
    manager()
