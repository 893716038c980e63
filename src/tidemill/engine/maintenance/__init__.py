"""What follows epochs: stored changes merged, logs trimmed, old epochs forgotten.

- ``housekeeping``: what is due after an epoch, compact and vacuum
- ``compaction_schedule``: which maps have been touched and are due
- ``change_logs``: how far back the changes of views that are only subscribed to are kept
"""
