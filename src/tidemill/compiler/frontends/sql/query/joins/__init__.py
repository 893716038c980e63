"""Joins of FROM.

- ``join``: ON, USING and NATURAL; inner, outer, semi and anti
- ``asof_join``: ASOF JOIN, with the closest row
- ``temporal_join``: FOR SYSTEM_TIME AS OF a time of the row to the left
"""
