"""Views filled, and deferred views brought up to their inputs.

- ``fill``: a view computed from the whole of its inputs
- ``catch_up``: deferred views that last looked at the same epoch, refreshed together
- ``scheduler``: which view is refreshed next: weight times staleness
"""
