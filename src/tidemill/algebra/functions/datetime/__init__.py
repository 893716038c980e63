"""Functions of dates and timestamps.

- ``time``: dates and timestamps
- ``intervals``: the functions of intervals; ``interval_arithmetic``: their values
- ``time_formats``: timestamps as texts of a pattern, and time zones
- ``time_units``: timestamps from parts, and moved or compared by units
- ``times_of_day``: times of day
- ``time_windows``: tumbling and sliding time windows, and numbers of time partitions
"""
