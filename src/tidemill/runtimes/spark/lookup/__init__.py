"""Lookup: the stored rows that an epoch touches, found with as few jobs and scans as possible.

- ``prefetch``: the lookups that an epoch is going to make, merged by relation and key, and fetched together.
- ``stored_snapshot``: rows that are left in the files of the store; all lookups that are planned together are one job.
- ``lookup_task``: what the tasks of such a job do.
- ``touched_rows``: the rows that a bulk change touches in large relations, read once for all views.
- ``key_check``: checks a change against a table: primary keys, and deletes of rows that do not exist.
- ``bulk_key_check``: the rows of a large change that need a closer check, found by hashes of key columns.
- ``constraint_check``: CHECK and FOREIGN KEY, one query for all tables of an epoch.
"""
