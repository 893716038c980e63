"""The files in which the commits of a warehouse folder are recorded.

- ``layout``: the files of a warehouse folder, and recovery: the newest manifest and the log after it.
- ``manifest``: one file per commit; the newest one defines the state of the warehouse.
- ``log``: the write-ahead log, which holds small epochs until the next manifest.
- ``logged_rows``: a few rows as JSON, as small changes stand in the log.
- ``logged_arrays``: large arrays in the log, as edits of earlier ones.
- ``group_sync``: one sync for all threads that wait for theirs.
- ``commit_mark``: how far commits were acknowledged; tells lost log records from torn ones.
- ``position_history``: the source positions of past epochs.
- ``format``: the format number of a folder, and migrations.
"""
