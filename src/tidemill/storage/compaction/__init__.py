"""Compaction: fewer and smaller runs that say the same, and files that nothing names any more.

- ``consolidate``: choosing runs to merge, and summing equal keys; exact also for DOUBLE.
- ``run_merge``: merged runs written beside the old ones, for a manifest to swap in.
- ``expired_rows``: rows that no change can reach any more, removed from runs.
- ``vacuum``: deleting files that no manifest names.
"""
