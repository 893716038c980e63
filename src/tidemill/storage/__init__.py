"""Storage: named maps of weighted rows with epochs; one atomic commit for all maps of an epoch.

- ``store``: the protocol that the engine uses, and the run files that runtimes see.
- ``memory_store``, ``folder_store``: the two stores.
- ``folder_commits``: what is committed in an open folder, and how it advances, also after an error.
- ``folder_writer``: turns epochs into log records, runs and manifests, durably.
- ``commits``: the files in which commits are recorded: manifests, the log, and how a folder is recovered from them.
- ``snapshot``: an epoch that a reader holds open.
- ``vacuumed_files``: files that another process has vacuumed, told from damage.
- ``copies``: the files of a commit at another place: backups and clones.
- ``change_counts``: rows that epochs have inserted, updated and deleted, for statistics.
- ``bounded_log``: lines of text beside the commits, bounded in bytes: the refresh log.
- ``runs``: Parquet files of weighted rows, verified against their checksums.
- ``row_group_statistics``: what the statistics of a file say of its row groups.
- ``prepared_run``: files that are written before the epoch that takes them in.
- ``shared_staging``: files of the next epoch that processes of several machines write to an object store.
- ``row_group_cache``: what lookups have read of runs, kept for later ones under a memory budget.
- ``segments``: reading a map as the sum of its segments, in files and in memory.
- ``mapped``: columns and lookup indexes of runs, mapped into memory.
- ``compaction``: merging runs, deleting expired rows, vacuum.
- ``scans``: a map divided among tasks that read it.
- ``repair``: examining and repairing damaged folders.
- ``filesystem``: disks and object stores; durable files, locks, links, checksums.
"""
