"""Time partitions of tables and views: lateness, the bounds of future changes, and retention.

- ``lateness``: changes behind LATENESS go to the table of late changes
- ``source_heads``: how far each source has come, of tables whose LATENESS is BY a column
- ``late_replay``: late changes replayed
- ``bounds``: LATENESS and RETAIN of a table that is there already
- ``change_bounds``: the instant from which tables and views can still change
- ``bounded_state``: when each map of a view forgets, and ``require = 'bounded'``
- ``beginnings``: views that are created after rows that are gone
- ``retention``: state and rows behind those bounds are dropped
- ``listing``: SHOW PARTITIONS
"""
