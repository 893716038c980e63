"""Statements that read and change rows.

- ``dml_readers``: SELECT, INSERT, UPDATE, DELETE and TRUNCATE, parsed by sqlglot
- ``merge_reader``: MERGE INTO, parsed by sqlglot
- ``release_reader``: RELEASE ERRORS
"""
