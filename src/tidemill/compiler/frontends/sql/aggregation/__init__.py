"""Aggregates and groups.

- ``aggregates``: each aggregate by the names that users write, with DISTINCT, FILTER and WITHIN GROUP
- ``arguments``: the arguments and clauses of an aggregate, as scalars
- ``sketches``: aggregates that make or combine sketches
- ``grouping``: the keys and aggregates of one SELECT, and expressions over its groups
- ``grouping_sets``: GROUPING SETS, ROLLUP and CUBE
"""
