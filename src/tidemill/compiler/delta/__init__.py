"""Derivatives of relations, and the nested loops that compute them.

- ``derive``: the change of a relation when one of its inputs changes, one rule for each node
- ``triggers``: what a change, or a whole load, adds to the maps of a stage
- ``time_filters``: what an advance of the clock adds to a stage that compares rows with it
- ``nested_loops``: the order of loops for a query block, and where each condition is tested
- ``stream_history``: maps that hold the rows of a stream that triggers still need
- ``joingraph``: the join graph of a query block
- ``sum_pushdown``: sums pushed down to the members of a join graph
- ``triangles``: sums over cycles of three relations, with the root of all rows as the work for a change
- ``degree_partition``: relations in heavy and light parts, by how many rows share a value
"""
