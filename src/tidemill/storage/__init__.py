"""Storage: named maps of weighted rows with epochs; one atomic commit for all maps of an epoch.

- ``store``: the protocol that the engine uses, and the run files that runtimes see.
- ``memory_store``, ``folder_store``: the two stores.
- ``folder_commits``: what is committed in an open folder, and how it advances, also after an error.
- ``folder_writer``: turns epochs into log records, runs and manifests, durably.
- ``snapshot``: an epoch that a reader holds open.
- ``layout``: the files of a warehouse folder, and recovery: the newest manifest and the log after it.
- ``manifest``: one file per commit; the newest one defines the state of the warehouse.
- ``log``: the write-ahead log, which holds small epochs until the next manifest.
- ``group_sync``: one sync for all threads that wait for theirs.
- ``logged_rows``: a few rows as JSON, as small changes stand in the log.
- ``change_counts``: rows that epochs have inserted, updated and deleted, for statistics.
- ``commit_mark``: how far commits were acknowledged; tells lost log records from torn ones.
- ``position_history``: the source positions of past epochs.
- ``format``: the format number of a folder, and migrations.
- ``runs``: Parquet files of weighted rows, verified against their checksums.
- ``shared_staging``: files of the next epoch that processes of several machines write to an object store.
- ``row_group_cache``: what lookups have read of runs, kept for later ones under a memory budget.
- ``segments``: reading a map as the sum of its segments, in files and in memory.
- ``mapped``: columns and lookup indexes of runs, mapped into memory.
- ``compaction``: merging runs, deleting expired rows, vacuum.
- ``scans``: a map divided among tasks that read it.
- ``repair``: examining and repairing damaged folders.
- ``filesystem``: disks and object stores; durable files, locks, links, checksums.
"""
