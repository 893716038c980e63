"""SQLite as a source: a file that others write to, with an outbox that triggers fill.

- ``source``: the source itself; a poll is one read transaction.
- ``catalog``: the tables of a file, and the conversion of its values.
- ``outbox``: the table of changed rows, and the triggers that fill it.
"""
