"""Statements that change rows.

- ``changes``: INSERT, UPDATE, DELETE; ``merge``: MERGE INTO; ``upsert``: ON CONFLICT, OVERWRITE, rows by key
- ``release``: RELEASE ERRORS; ``implicit_casts``: texts that are compared with numbers
"""
