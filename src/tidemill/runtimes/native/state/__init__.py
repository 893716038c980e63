"""State in this process: maps with a journal of the epoch, indexes over them, and snapshots of large relations.

- ``maps``: rows with weights and groups with ring values, with a journal to emit, store and undo an epoch.
- ``indexes``: observers of a map's entries: hash indexes, array elements, counts of negative entries.
- ``ordered_sums``: ordered entries with block sums: range sums and seeks in O(sqrt n).
- ``ordered_groups``: entries grouped by their first keys and ordered within each group, before and after the epoch.
- ``snapshot``: stored rows as immutable Arrow columns, found by sorted hashes.
- ``overlay``: a snapshot of a large relation and the changes since.
- ``stored_rows``: the first few lookups in a large relation, in the files of the store.
- ``table_lookup``: the rows of a table under the keys of a change.
- ``double_sums``: sums of DOUBLE that deletions reverse exactly, as double-doubles.
- ``fixed_point``: DOUBLEs as integers, for window sums.
"""
