"""Compaction: fewer and smaller runs with the same content, and deletion of unreferenced files.

- ``consolidate``: choosing runs to merge, and summing equal keys; exact also for DOUBLE.
- ``cancelling``: pairs of rows that cancel, taken out before rows are summed.
- ``run_merge``: merged runs written beside the old ones, for a manifest to swap in.
- ``expired_rows``: rows that no change can reach any more, removed from runs.
- ``vacuum``: deleting files that no manifest references.
"""
