"""``tidemill bench lake``: eight views from lake tables to Delta tables, beside Spark and its declarative pipelines.

- ``lakes``: TPC-H as Delta and Iceberg tables with and without a change data feed, whose deleted rows are gone with
  their files or marked; a day's changes by MERGE
- ``refresh``: Tidemill's refresh, timed by its phases, with the bytes that it writes
- ``baselines``: Spark overwriting eight tables
- ``pipelines``: ``spark-pipelines run`` and ``tidemill pipelines run`` on the text of the same views
- ``answers``: the published tables, read by delta-rs, beside what DuckDB computes from the files of the lake
- ``run``, ``table``: figures
"""

from benchmarks.lake.run import run
from benchmarks.lake.table import as_table

__all__ = ["as_table", "run"]
