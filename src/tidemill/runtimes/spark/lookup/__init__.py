"""Lookup: the stored rows that an epoch touches, found with as few jobs and scans as possible.

- ``prefetch``: the lookups that an epoch is going to make, merged by relation and key, and fetched side by side.
- ``touched_rows``: the rows that a bulk change touches in large relations, read once for all views.
- ``key_check``: whether a table can take a change: primary keys, and deletes of rows that are not there.
- ``bulk_key_check``: the rows of a large change that need a closer look, told by hashes of key columns.
- ``constraint_check``: CHECK and FOREIGN KEY, one query for all tables of an epoch.
"""
