"""Initial load of views, and refresh of deferred views.

- ``fill``: a view computed from the full contents of its inputs
- ``catch_up``: deferred views of the same epoch, refreshed together
- ``healing``: views in quarantine, tried again
- ``scheduler``: chooses the view to refresh next, by weight times staleness
"""
