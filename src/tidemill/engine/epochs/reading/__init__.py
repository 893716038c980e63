"""Rows of tables and views, and answers to queries, now or as of an epoch.

- ``reader``: all of these; ``keyed_reads``: queries by primary key, answered from the rows under these keys
- ``guarded_reads``: views that set rows aside, as a transaction sees them
"""
