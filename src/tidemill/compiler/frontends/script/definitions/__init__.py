"""Statements that define, alter and drop.

- ``create_table``: columns of CREATE TABLE and CREATE STREAM; ``lake_tables``: CREATE TABLE ... USING format LOCATION
- ``options``: (key = value, ...)
- ``constraints``: PRIMARY KEY, FOREIGN KEY, CHECK and NOT NULL, each enforced or refused
- ``check_conditions``: the condition of a CHECK as a scalar
- ``definition_readers``: views that are not materialized, functions in SQL, variables
- ``alter_readers``: ALTER TABLE; ``alter_view_reader``: ALTER VIEW
- ``build_statements``: SHOW BUILDS, PAUSE, RESUME and CANCEL BUILD
- ``stage_statements``: SHOW STAGES, PROMOTE and DROP STAGE
"""
