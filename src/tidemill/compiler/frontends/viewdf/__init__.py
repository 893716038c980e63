"""ViewDF: views whose partitions are defined from partitions of other relations.

- ``parse``: INITIALIZE v[k] AS ... UPDATE v[i] AS ..., and queries over sliding windows
- ``definition``: such a view as plain data
- ``subscripts``: ``s[i-59 .. i]``: the range of partitions that a query reads
- ``sliding_windows``: ``s [WINDOW 60 MINUTES SLIDE 5 MINUTES]``
- ``partition_by``: PARTITION BY column EVERY length, with LATENESS and RETAIN
- ``translate``: such a view as algebra
"""
