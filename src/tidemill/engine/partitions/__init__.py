"""Time partitions of tables and views: what is late, what can still change, and what is forgotten.

- ``lateness``: changes behind LATENESS go to the table of late changes
- ``late_replay``: late changes applied after all
- ``change_bounds``: from which instant on tables and views can still change
- ``retention``: state and rows behind those bounds are forgotten
- ``listing``: SHOW PARTITIONS
"""
