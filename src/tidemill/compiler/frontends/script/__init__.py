"""The statements of a script, as plain data.

- ``statements``: one class for each statement, with its place in the text; ``table_changes``: what ALTER TABLE changes;
  ``conflict_clause``: ON CONFLICT; ``assignments``: SET
- ``readers``: from tokens to statements, by their first words
- ``definitions``: statements that define, alter and drop
- ``row_changes``: statements that read and change rows
- ``listings``: SHOW
- ``transactions``: BEGIN, COMMIT and ROLLBACK; ``grants``: GRANT, REVOKE, SHOW GRANTS
- ``without_literals``: a text without its values, for logs
- ``keywords``: the words that a shell completes
"""
