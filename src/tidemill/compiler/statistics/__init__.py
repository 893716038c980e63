"""Sizes, costs and predictions: the cost model that strategy ``auto`` and EXPLAIN use.

- ``sizes``: row counts and distinct counts of relations and maps
- ``costs``: cost class of one changed row in a stage, with reason and hint
- ``loop_estimate``: visits and rows of nested loops
- ``predictions``: predicted entries, bytes and work of stages and programs
"""
