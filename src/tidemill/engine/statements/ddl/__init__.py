"""Definitions that are created, altered and replaced.

- ``alter``: ALTER TABLE, RENAME TO
- ``alter_view``: CREATE OR REPLACE of views, ALTER VIEW; ``explain_definition``: EXPLAIN CREATE, EXPLAIN ALTER VIEW
- ``redefine``: the same of views that are not materialized, and functions, with the views that use them
- ``named_definitions``: views that are not materialized, functions in SQL, variables, CREATE TABLE AS
- ``lake_tables``: CREATE TABLE ... USING, REFRESH TABLE
- ``deploy_stages``: SHOW STAGES, PROMOTE and DROP STAGE
"""
