"""A view cut into stages: each a sum of query blocks with at most one grouping on top.

- ``cutting``: which subqueries become stages of their own
- ``stages``: ``draft_stages``: the stages of a view before a strategy makes their triggers
- ``append_only``: state that only deletions need, left out where nothing is deleted
- ``recursion``: the maps and the iteration trigger of a recursive stage
- ``sessions``: the maps of a stage that groups rows by sessions
- ``time_filters``: the state of a condition on the clock, and what an advance of the clock does
- ``partition_clock``: partitions that a clock makes
- ``time_partitions``: the maps and bodies of a stage made time partition by time partition
"""
