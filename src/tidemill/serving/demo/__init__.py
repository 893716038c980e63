"""``tidemill demo``: a shop whose orders stream in while six views follow.

- ``run_demo``: the run
- ``shop``: the generated tables and their changes
- ``arrivals``: changes given to the warehouse, or as files that a streaming query follows
- ``recompute``: the views recomputed, by the runtime and by DuckDB
- ``board``: what is shown meanwhile
- ``show_console``: the offer of the console at its end
- ``example_files``: the files that the README begins with
"""
