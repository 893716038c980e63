"""Execution of SQL statements by the engine.

- ``execute``: dispatch from a parsed statement to its function; definitions and REFRESH
- ``alter``: ALTER TABLE, RENAME TO; ``details``: DESCRIBE EXTENDED
- ``alter_view``: CREATE OR REPLACE of views, ALTER VIEW; ``explain_definition``: EXPLAIN CREATE, EXPLAIN ALTER VIEW
- ``redefine``: the same of views that are not materialized, and functions, with the views that use them
- ``builds``: views built in the background, SHOW BUILDS
- ``deploy_stages``: SHOW STAGES, PROMOTE and DROP STAGE
- ``script``: a text of statements, run with its parameters
- ``parameters``: values of ``:name`` and ``?``; ``prepared``: statements that are translated once
- ``point_read``: rows of one key, from memory and at once
- ``describe``: types of parameters and columns before a statement is run
- ``transactions``: BEGIN, COMMIT, ROLLBACK
- ``grants``: GRANT, REVOKE, SHOW GRANTS, and which statements a session may run
- ``changes``: INSERT, UPDATE, DELETE; ``merge``: MERGE INTO; ``upsert``: ON CONFLICT, OVERWRITE, rows by key
- ``named_definitions``: views that are not materialized, functions in SQL, variables, CREATE TABLE AS
- ``lake_tables``: CREATE TABLE ... USING, REFRESH TABLE
- ``show``: SHOW statements; ``show_refreshes``: SHOW REFRESHES, SHOW COSTS, SHOW STATE
- ``release``: RELEASE ERRORS; ``implicit_casts``: texts that are compared with numbers
- ``versions``: tables and views that a SELECT reads as of earlier epochs
- ``select``: one-off queries, ordered and limited
- ``clock``: the time that NOW() is in a statement that is run once
"""
