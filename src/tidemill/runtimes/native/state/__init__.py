"""State in this process: maps that keep a journal of the epoch, the indexes over them, and snapshots of large
relations.

- ``maps``: rows with weights and groups with ring values, with a journal to emit, store and undo an epoch.
- ``indexes``: what follows the entries of a map: hash indexes, array elements, counts of negative entries.
- ``ordered_sums``: entries in order with block sums: range sums and seeks in O(sqrt n).
- ``ordered_groups``: entries by their first keys and in order within each group, before and after the epoch.
- ``snapshot``: stored rows as Arrow columns that never change, found by sorted hashes.
- ``overlay``: a snapshot of a large relation and the changes since.
- ``table_lookup``: what a table holds under the keys of a change.
- ``double_sums``: sums of DOUBLE that deletions take back exactly, as double-doubles.
- ``fixed_point``: DOUBLEs as integers, for window sums.
"""
