"""Nexmark: the queries of ``tests/nexmark`` over the official mix of events, in epochs of each size.

- ``events``: people, auctions and bids, as the official generator makes them
- ``oracle``: what a query must show, by DuckDB
- ``case``: a query over tables or streams, with or without a subscriber, and what it has shown
- ``measure``: one case as it runs; ``scaling``: the same over growing tables
- ``published``: goals, and what others have measured
- ``run``, ``table``: all cases, and how they are shown
"""

from benchmarks.nexmark.run import run
from benchmarks.nexmark.table import as_table

__all__ = ["as_table", "run"]
