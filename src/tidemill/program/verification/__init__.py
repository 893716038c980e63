"""The invariants of programs, checked on every compile.

- ``verify``: those of maps, triggers and statements
- ``verify_joingraph``: those of join graphs and readers
- ``verify_time_partitions``: those of stages computed by time partitions
"""
