"""Plain Python computations over the rows of a group or ordered partition; slow, obvious, the reference for runtimes.

- ``aggregates``: aggregates over a multiset of weighted rows
- ``moving_aggregates``: aggregates over frames that move forward
- ``frames``: the rows of each frame, as spans of an ordered partition
- ``windows``: the value of a window function for each row
"""
