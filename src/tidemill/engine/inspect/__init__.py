"""Inspection of views: explanation, verification, measures, staleness.

- ``explanation``: EXPLAIN VIEW
- ``verification``: views compared with what they must be, and the base rows of a row
- ``measures``: what tables and views hold and cost
- ``information_schema``: the catalog as rows, which one-off queries read
- ``status``: tables, views and what they do, without the lock of the warehouse
- ``staleness``: epochs, partitions and seconds by which a view is behind
"""
