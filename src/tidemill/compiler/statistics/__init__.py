"""Sizes, costs and predictions: the cost model that strategy ``auto`` and EXPLAIN use.

- ``column_values``: distinct values, NULLs and frequent values of a column
- ``sizes``: row counts, distinct counts and rates of relations and maps
- ``costs``: cost class of one changed row in a stage, with reason and hint
- ``loop_estimate``: visits and rows of nested loops
- ``work_counts``: elementary operations, and the cost of each
- ``predictions``: predicted entries, bytes and work of stages and programs
- ``epoch_costs``: predicted seconds of an epoch, by triggers or by computing a view again
"""
