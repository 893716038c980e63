"""Remote queries: the signed queries of the ECA paper, and their evaluation by a database.

- ``signed_query``: select-project-join views, terms with bound tuples, and sums of terms: ``Q<U>``.
- ``local_evaluation``: signed queries over relations that are in memory, joined by index.
- ``group_sums``: the rows of views with sums, one for each group.
- ``remote_tables``: tables and columns with their names in the other database.
- ``dialects``: PostgreSQL's and SQLite's SQL, and the expressions that have the same meaning there.
- ``mysql_dialect``: MariaDB's and MySQL's.
- ``render_sql``: a signed query as SQL statements, and the local processing of the rows that come back.
"""
