"""Lake tables that views are published as: commits that carry epochs, exactly once.

- ``lake_publication``: what the engine asks of a published table, of whatever format
- ``delta_publication``, ``iceberg_publication``: the epoch that a table shows, in its own log
- ``epochs_table``, ``delta_epochs``, ``iceberg_epochs``: the table that says which versions belong together
- ``delta_writer``, ``iceberg_writer``: commits that replace, append, merge and compact
- ``delta_log``, ``deletion_vectors``: commits of Delta with deletion vectors, written by the protocol
- ``iceberg_snapshot``, ``iceberg_catalog``: snapshots of Iceberg with position deletes, committed by a catalog
- ``key_positions``, ``key_index``: the places of rows in files, by their keys, and what is derived to find them
- ``file_tiers``: which files are compacted
"""
