"""Join graphs as LLVM code: nested loops over adjacency lists.

- ``walks``: a walk from the row of a change to all complete paths.
- ``lookups``: the lists and entries that a walk looks up, each once for a row.
- ``liveness``: items that are known to lead nowhere, and how they come alive again.
- ``prefetch_paths``: the lists that a walk will read two steps on.
- ``graph_code``: what a stage with join graphs has besides its maps.
"""
