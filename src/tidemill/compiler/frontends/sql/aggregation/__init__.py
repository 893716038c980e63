"""Aggregates and groups.

- ``aggregates``: each aggregate by the names that users write, with DISTINCT, FILTER and WITHIN GROUP
- ``parameters``: the types of arguments that aggregates declare, and their implicit casts
- ``grouping``: the keys and aggregates of one SELECT, and expressions over its groups
- ``grouping_sets``: GROUPING SETS, ROLLUP and CUBE
"""
