"""How a stage is maintained: one file each, none imports another.

- ``strategy``: ``Strategy``: what it accepts, its options, its cost and its compile function
- ``delta``: first-order deltas
- ``viewlet``: higher-order deltas (DBToaster)
- ``joingraph``: one compact map for each relation of a join, walked by a change (GraphIVM)
- ``lineage``: each row with the keys of the rows that it comes from (MOVIE)
- ``partition``: each time partition from a few others (ViewDF)
- ``outerjoin``: a full outer join table, for comparison
- ``recompute``: the whole stage again, the baseline
"""
