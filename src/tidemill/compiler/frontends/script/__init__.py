"""The statements of a script, as plain data.

- ``statements``: one class for each statement, with its place in the text
- ``readers``: from tokens to statements, by their first words
- ``without_literals``: a text without its values, for logs
- ``keywords``: the words that a shell completes
- ``dml_readers``: SELECT, INSERT, UPDATE, DELETE and TRUNCATE, parsed by sqlglot
- ``merge_reader``: MERGE INTO, parsed by sqlglot; ``conflict_clause``: ON CONFLICT; ``assignments``: SET
- ``release_reader``: RELEASE ERRORS
- ``transactions``: BEGIN, COMMIT and ROLLBACK; ``grants``: GRANT, REVOKE, SHOW GRANTS
- ``definition_readers``: views that are not materialized, functions in SQL, variables
- ``show_readers``: SHOW; ``show_refreshes``: SHOW REFRESHES, SHOW COSTS, SHOW STATE
- ``alter_readers``: ALTER TABLE; ``table_changes``: the changes that it makes; ``alter_view_reader``: ALTER VIEW
- ``build_statements``: SHOW BUILDS, PAUSE, RESUME and CANCEL BUILD
- ``stage_statements``: SHOW STAGES, PROMOTE and DROP STAGE
- ``create_table``: columns of CREATE TABLE and CREATE STREAM
- ``lake_tables``: CREATE TABLE ... USING format LOCATION
- ``options``: (key = value, ...)
- ``constraints``: PRIMARY KEY, FOREIGN KEY, CHECK and NOT NULL, each enforced or refused
- ``check_conditions``: the condition of a CHECK as a scalar
"""
