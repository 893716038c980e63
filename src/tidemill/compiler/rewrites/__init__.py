"""Passes from algebra to algebra; each file exports a function of its name.

- ``sliding_windows``: the method by which sliding windows are computed (ViewDF)
- ``partitionwise``: time-partitioned relations whose partitions are independent become ordinary ones
- ``definitions``: WITH definitions hoisted to the top and shared
- ``subqueries``: subqueries in expressions as joins with groups, or as expressions
- ``replace_set_operations``: INTERSECT and EXCEPT as groups with counts
- ``expand_outer_joins``: outer joins as inner joins and unmatched rows
- ``push_down_extremes``: MIN and MAX over a join from those of its relations, for join graphs
- ``push_down_top_k``: the first rows of a join from those of its relations, for join graphs
- ``plain_joins``: joins of scans alone, for both
- ``push_down_filters``: filters at the lowest node that has their columns
- ``factor_disjunctions``: conditions common to all branches of an OR
- ``infer_top_k``: window functions with a bound on the rank as top-k
- ``expand_distinct_aggregates``: aggregates over DISTINCT as plain ones over distinct rows
- ``null_on_error``: NULL in place of operations that fail
- ``cogroup``: several relations grouped together, each seen by its own aggregates
- ``row_identity``: key columns carried along so that rows stay identifiable
- ``unique_aliases``: an alias of its own for each scan and each unnested array
"""
