"""Data structures of emitted code.

- ``hash_table``: open addressing with linear probing.
- ``chained_index``: hash indexes over rows of columns.
- ``key_cells``: keys as arguments, as hashes and as conditions on a record.
- ``sort_keys``: values as unsigned integers in the same order.
- ``btree``: B+trees of running sums; ``btree_nodes``: their nodes.
- ``ordered_groups``: sorted items for each prefix: an array, or a tree where there are many.
- ``sum_groups``: ordered groups whose items are a key and its sums.
- ``group_cursor``: ordered groups that are read from a key on, or by the number of a row.
- ``adjacency_lists``: for values of some key columns, an array of what stands in the others.
- ``slices``: one such list as a walk reads it.
- ``column_buffer``: rows that are appended column by column.
"""
