"""Expiry: the state of a program that no change can reach any more, derived from how late changes of its inputs may be.

- ``time_bounds``: the earliest times that expressions and joined rows of a future change can have
- ``time_functions``: the earliest values of functions of a time
- ``reads``: which entries of maps and rows of relations the triggers of a stage can touch
- ``row_reach``: how far before a change window functions and top-k look
- ``entries``: the expired entries of one map, for stores and runtimes to drop
- ``state``: the expired state of one view after the other
"""
