"""Streams of Spark's Structured Streaming as epochs of the warehouse.

- ``stream``: a running stream as users see it: its figures, its end, its error.
- ``intake``: the batches of a stream as epochs, bad rows aside.
- ``debezium_intake``: Kafka's records of Debezium as epochs.
- ``batch_rows``: the rows of one batch that a table can take, as insertions or as upserts, and those that it cannot.
- ``given_rows``: rows that are given to ``apply`` or posted, taken in the same way.
- ``options``: how the rows of a stream are taken.
- ``rejected_rows``: bad rows of files, in a table of their own; ``file_epochs``: both as one epoch.
"""
