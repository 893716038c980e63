"""Initial load of views, and refresh of deferred views.

- ``fill``: a view computed from the full contents of its inputs
- ``catch_up``: deferred views of the same epoch, refreshed together
- ``parallel_refresh``: independent late views, each in a process of its own, as one epoch
- ``forked_jobs``: processes that hand back a result
- ``healing``: views in quarantine, tried again
- ``scheduler``: chooses the view to refresh next, by weight times staleness
"""
