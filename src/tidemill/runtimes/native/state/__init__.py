"""State in this process: maps with a journal of the epoch, indexes over them, and snapshots of large relations.

- ``journaled_map``: entries by key, with a journal to emit, store and undo an epoch.
- ``row_map``: the rows of a relation with their weights.
- ``ring_map``: groups with a weight and ring values.
- ``stage_maps``: the maps of a stage, and its triggers prepared for them.
- ``column_order``: the entries of a map in the order of one of their keys.
- ``indexes``: observers of a map's entries: hash indexes, array elements, counts of negative entries.
- ``ordered_sums``: ordered entries with block sums: range sums and seeks in O(sqrt n).
- ``ordered_groups``: entries grouped by their first keys and ordered within each group, before and after the epoch.
- ``snapshot``: stored rows as immutable Arrow columns, found by sorted hashes.
- ``overlay``: a snapshot of a large relation and the changes since.
- ``state_reader``: relations and maps out of the store: whole, in columns, or left there until they are looked up.
- ``stored_lookups``: the first lookups in a relation or map that is not in memory, in the files of the store.
- ``group_ends``: the least and greatest entries of groups, which MIN and MAX need, out of a snapshot.
- ``table_lookup``: the rows of a table under the keys of a change.
- ``double_sums``: sums of DOUBLE that deletions reverse exactly, as double-doubles.
- ``fixed_point``: DOUBLEs as integers, for window sums.
"""
