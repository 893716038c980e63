"""External input: views over sources, and folders that receive files.

- ``source_views``: all views over sources: opened, filled, synced, closed
- ``source_maintainer``: one view over sources: passes messages to protocols, and commits what they install
- ``initial_load``: its first rows, from one state of each source
- ``folder_feeds``: each file of a folder is an epoch, applied exactly once
"""
