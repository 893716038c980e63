"""Queries that are run once.

- ``select``: their rows, ordered and limited
- ``versions``: tables and views that they read as of earlier epochs
- ``clock``: the time that NOW() is in a statement that is run once
"""
