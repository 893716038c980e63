"""A table after ALTER TABLE, as data: what follows from a change, and what does not allow it.

- ``table``: ``AlteredTable``, a table before and after a change, and what the change is to its stored rows
- ``change``: from a change to the altered table
- ``columns``: columns that come, go, move, and get other names, types and defaults
- ``constraints``: keys, checks, unique columns and foreign keys that come and go
- ``bounds``: LATENESS and RETAIN
"""
