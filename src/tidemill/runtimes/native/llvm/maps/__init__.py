"""One map of a program as code, and the tables that stages share.

- ``map_code``: the functions that find, add and sum; what queries use.
- ``journal``: the exported functions of an epoch: begin, restore, changes, rollback.
- ``updates``: how an entry changes: added to, inserted, removed, set.
- ``secondary_indexes``: ordered indexes, orders of groups and counts of negatives, which follow each change.
- ``ordered_index``: sums over ranges of one key column.
- ``group_order``: the entries of each group in order; ``noted_groups``: what touched groups gave before the epoch.
- ``multiset_index``: the least and the greatest value of each group.
- ``top_rows``: the first rows of each group.
- ``window_rows``: the rows of each group with their sums, and the changes of an epoch.
- ``match_rows``: the same with the search for matches beside each group.
- ``record_store``: records in the slots of a hash table, or in a pool.
- ``clustered_store``: records next to each other by their leading columns.
- ``adjacency_store``: records of a join graph's member, with adjacency lists.
- ``record_items``: records as items of ordered groups.
- ``table_reader``: looks rows up in a table that stages share.
- ``ring_values``: the weight and the ring values of an entry.
"""
