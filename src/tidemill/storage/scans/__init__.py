"""Scans: the rows of a map as of an epoch, or its changes between two, divided among tasks.

- ``scan_parts``: a pinned snapshot as parts that any process can read.
- ``run_slice``: some rows of a run as a segment of their own.
- ``temporary_runs``: run files that live as long as their reader.
"""
