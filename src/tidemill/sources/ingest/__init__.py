"""Ingest: users' data as changes of tables. A bad row is refused or set aside, with its reason.

- ``frames``: pairs, Arrow tables, pandas and other frames.
- ``plain_rows``: many pairs of plain Python values as columns.
- ``files``: CSV, JSON lines and Parquet, in batches.
- ``file_formats``: format and compression of a file; ``csv_options``: how a CSV file is written.
- ``file_listing``: the files below a path, and partition columns in the names of folders.
- ``text_records``: CSV and JSON lines as records with their line and text.
- ``nested_records``: nested records of JSON lines and Parquet.
- ``inbox``: a folder that receives files, each ingested once.
- ``pairs``: weighted rows as JSON lines.
- ``debezium``: change records of Debezium.
- ``kafka_connect``: values as Kafka Connect and Debezium write them in JSON.
"""
