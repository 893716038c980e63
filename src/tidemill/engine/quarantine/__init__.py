"""Quarantine: rows that a view cannot compute are set aside, and everything else goes on.

- ``row_groups``: the groups of a view's input rows that are held back together
- ``fault_search``: the search for the groups of a change that a view cannot compute
- ``held_rows``: rows held back from a view, as its table of errors stores them
- ``holding``: what a running epoch shows to each view of its changes
- ``marks``: views in quarantine, noted among the positions
- ``notes``: what readers of such a view are told
- ``quarantine``: all held rows of a warehouse, and the decisions of the epoch that runs

Which rows are at fault is found by ``engine.epochs.isolation``.
"""
