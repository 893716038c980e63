"""Plain Python computations over the rows of a group or ordered partition; slow, obvious, the reference for runtimes.

- ``moving_frames``: aggregates over frames that move forward
- ``frames``: the rows of each frame, as spans of an ordered partition
- ``windows``: the value of a window function for each row
- ``array_difference``: the elements that a change adds to arrays and takes from them
"""
