"""Window functions over ordered partitions, as code: the rows that a change reaches, as they were and as they are.

- ``emit_windows``: from the changed entries of a partition to the rows that come and leave.
- ``functions``: the value of each window function for a row.
- ``folds``: MIN and MAX over frames.
- ``frames``: the rows of a frame, by their numbers.
- ``partitions``: a part of a partition before and after the epoch, laid out row by row.
- ``sort_terms``: the order of the rows of a partition; that of a top-k, too.
- ``reach``: how far around a change the values of window functions may change.
"""
