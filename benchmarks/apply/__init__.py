"""Apply: what people call, by wall clock, in each form and size of change, beside recomputing and other maintainers.

- ``workloads``: three views, with their tables and the triggers that SQLite gets
- ``history``: seeded rows, and changes that leave tables as large as they were
- ``subject``: Tidemill, in memory and on disk, and its peers, each as something that takes a change
- ``measure``: epochs in a loop, and in several threads
- ``job``: files loaded, point updates, five views filled, and the first change after opening, beside DuckDB
- ``memory``: bytes an entry of each kind of map
- ``profile``: which Python functions an epoch calls
- ``run``, ``table``: all cases, and how they are shown
"""

from benchmarks.apply.run import run
from benchmarks.apply.table import as_table

__all__ = ["as_table", "run"]
