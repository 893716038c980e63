"""Windows: over ordered rows, and over time.

- ``over_clause``: OVER and WINDOW: the window functions of one SELECT
- ``window_functions``: the function before OVER, with its arguments
- ``frames``: ROWS and RANGE BETWEEN
- ``time_windows``: ``window(time, size, slide)``, tumbling and sliding
- ``session_windows``: ``session_window(time, gap)``
- ``session_gaps``: the gap, a constant or an expression over the row
"""
