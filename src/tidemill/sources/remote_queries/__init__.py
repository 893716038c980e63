"""Remote queries: the signed queries of the ECA paper, and how a database is asked them.

- ``signed_query``: select-project-join views, terms with bound tuples, and sums of terms: ``Q<U>``.
- ``local_evaluation``: signed queries over relations that are in memory, joined by index.
- ``remote_tables``: tables and columns as they are called in the other database.
- ``dialects``: PostgreSQL's and SQLite's SQL, and the expressions that mean there what they mean here.
- ``render_sql``: a signed query as SQL statements, and what is left to do with the rows that come back.
"""
