"""Background builds: a view that is filled in slices while changes go on, and then swapped in.

- ``builds``: all builds of a warehouse, the thread that drives them, pause, resume and cancel
- ``handle``: ``wh.builds``
- ``sliceable``: which views can be built so, and the tables that feed them
- ``build``: one build, in a warehouse of its own: slices, changes that came meanwhile, progress
- ``place``: where that warehouse is
- ``handover``: the state of a built view, taken over by the warehouse in short commits
"""
