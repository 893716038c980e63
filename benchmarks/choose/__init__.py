"""``tidemill bench choose``: strategy ``auto`` beside all others, on the queries of the other benchmarks.

- ``workloads``: tables, views and changes of the other benchmarks in one form
- ``mixes``: changes of one row, of many, and of a share of all rows
- ``measure``: one view by one strategy, its answers compared
- ``drift``: tables that change their shape after a view was planned
- ``run``: all cases that were asked for
- ``table``, ``plots``: a line for each case, and how far ``auto`` is from the best
"""

from benchmarks.choose.run import run
from benchmarks.choose.table import as_table

__all__ = ["as_table", "run"]
