"""External input: views over sources, folders that receive files, and lake tables.

- ``source_views``: all views over sources: opened, filled, synced, closed
- ``source_maintainer``: one view over sources: passes messages to protocols, and commits what they install
- ``initial_load``: its first rows, from one state of each source
- ``chunked_load``: its first rows from large tables, in ranges of a key
- ``folder_feeds``: each file of a folder is an epoch, applied exactly once
- ``lake_tables``: the change from one version of lake tables to the next is an epoch, applied exactly once
- ``lake_versions``: versions of lake tables and the epochs that show them
- ``staged_rows``: many rows as files that the store adopts
- ``publications``, ``published_changes``: views as lake tables, each epoch committed there exactly once
- ``refused_views``: errors of views that cannot be published, raised once the others are
"""
