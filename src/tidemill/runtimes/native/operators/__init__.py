"""Operators: the output rows of a stage from its maps, incrementally.

Each operator gives the change of its rows for what an epoch has touched, and all rows after a first load. Entries of
maps are found by key and in order, so the cost follows the change.

- ``groups``: one row for each key of a map; the operators' common interface.
- ``multisets``: aggregates that need more than sums: MIN, MAX, percentiles, over ordered multisets.
- ``collected_arrays``: the arrays of COLLECT_LIST and its kind, edited as rows come and go.
- ``retractable``: aggregates whose state takes rows back.
- ``partitions``: operators over partitions of a map, those of PARTITION BY.
- ``topk``: the first rows of each partition.
- ``windows``: window functions, recomputed only for rows whose value can have changed.
- ``frame_reach``: how far a window function reaches along its partition.
- ``frame_sums``: the sums of single frames, looked up instead of read.
- ``sessions``: GROUP BY with sessions, which a change lengthens, joins or splits.
- ``match``: MATCH_RECOGNIZE, which resumes at the last state before a changed row.
- ``iteration``: recursion, iteration by iteration from the first that a change has touched.
- ``time_partitions``: time partitions, recomputed where their inputs have changed.
- ``touched_groups``: the groups of a time partition that late rows touch.
- ``rolling_window``: a sliding window that is maintained from one partition to the next.
"""
