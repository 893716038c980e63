"""What comes from outside by itself: views over sources, and folders that receive files.

- ``source_views``: all views over sources: opened, filled, synced, closed
- ``source_maintainer``: one view over sources: messages to protocols, installed changes to epochs
- ``initial_load``: its first rows, of one state of each source
- ``folder_feeds``: each file of a folder an epoch, applied exactly once
"""
