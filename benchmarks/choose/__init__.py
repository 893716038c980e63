"""``tidemill bench choose``: strategy ``auto`` beside all others, on the queries of the other benchmarks.

- ``workloads``: tables, views and changes of the other benchmarks in one form
- ``measure``: one view by one strategy, its answers compared
- ``run``: all cases that were asked for
- ``table``: a line for each case, and how far ``auto`` is from the best
"""

from benchmarks.choose.run import run
from benchmarks.choose.table import as_table

__all__ = ["as_table", "run"]
