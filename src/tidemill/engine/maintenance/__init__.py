"""Maintenance after epochs: stored changes compacted, logs trimmed, old epochs dropped.

- ``housekeeping``: work due after an epoch, compact and vacuum
- ``compaction_schedule``: maps that have changed and are due for compaction
- ``change_logs``: how far back the changes of subscribe-only views are kept
"""
