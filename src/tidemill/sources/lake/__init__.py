"""Lake tables: Delta tables, Iceberg tables and folders of files, which tell what changed between two versions.

- ``lake_table``: what the engine asks of a lake table, of whatever format
- ``location``: locations as users write them, checked
- ``columns``: Arrow schemas as columns of a table; types that are not ours are refused by name
- ``data_files``: data files that a version added and removed, as weighted rows
- ``rewritten_files``: files that were removed and added, read side by side; equal rows are taken out as they come
- ``spilled_rows``: rows that wait for an equal one in temporary files, where they are many
- ``marked_rows``: rows that one of two versions marks as deleted, in files that both have
- ``delta_table``: Delta, by its change data feed or the difference of its files
- ``delta_files``: the files of a version of a Delta table, with their deletion vectors
- ``delta_feed``: the change data feed, and where it is believed
- ``delta_package``: what is used of the package deltalake, and its errors as ours
- ``iceberg_table``: Iceberg, by the difference of its files and delete files
- ``position_deletes``: delete files of Iceberg, and data files as if they had some of their rows alone
- ``iceberg_package``: what is used of the package pyiceberg, how tables are opened, and its errors as ours
- ``folder_table``: plain folders of Parquet, CSV or JSON files
- ``folder_files``: the files of such a folder, on a disk or in an object store
- ``publication``: lake tables that views are published as
- ``registry``: lake tables by format
"""
