"""Execution of SQL statements by the engine.

- ``script``: a text of statements, run with its parameters
- ``execute``: dispatch from a parsed statement to its function; definitions and REFRESH
- ``ddl``: definitions created, altered and replaced; ``builds``: views built in the background, SHOW BUILDS
- ``dml``: rows changed
- ``queries``: queries that are run once
- ``prepared_statements``: statements that are translated once and run with other values
- ``listings``: SHOW and DESCRIBE
- ``transactions``: BEGIN, COMMIT, ROLLBACK
- ``grants``: GRANT, REVOKE, SHOW GRANTS, and which statements a session may run
"""
