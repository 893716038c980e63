"""Aggregates and groups.

- ``aggregates``: each aggregate by the names that users write, with DISTINCT, FILTER and WITHIN GROUP
- ``grouping``: the keys and aggregates of one SELECT, and expressions over its groups
- ``grouping_sets``: GROUPING SETS, ROLLUP and CUBE
"""
