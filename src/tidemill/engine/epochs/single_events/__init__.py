"""Events one at a time, gathered in an open epoch.

- ``events``: events that come one by one; ``event_order``: the order of replayed events
- ``open_epoch``: an epoch that takes changes one by one
"""
