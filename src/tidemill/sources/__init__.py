"""Sources: data in. Rows passed in by users, files, change records, and databases that others write to.

- ``ingest``: frames, files, JSON lines and Debezium records as changes of tables.
- ``source``: the protocol of an autonomous database: notifications and answers in one order.
- ``registry``: sources by type and options, as CREATE SOURCE gives them.
- ``secrets``: the environment variables that may hold passwords.
- ``polled_source``: sources that are read in one transaction per poll, which guarantees that order.
- ``reconnecting``: connections to servers that are opened again when they break.
- ``remote_queries``: signed queries, their SQL in each dialect, and their evaluation without a source.
- ``lake``: tables of a lake, whose own history tells what changed.
- ``postgres``, ``mysql``, ``sqlite``: one package for each database; its driver is imported nowhere else.
"""
