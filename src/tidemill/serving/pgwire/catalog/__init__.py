"""``pg_catalog`` and ``information_schema``: the catalog of a warehouse as PostgreSQL's tools ask for it.

A query of these is translated, not recognized: an embedded DuckDB answers it over rows that are made from the public
catalog.

- ``queries``: which statements ask for the catalog, and their plan
- ``translate``: from PostgreSQL's dialect to DuckDB's, with the types that only PostgreSQL has
- ``database``: the tables in DuckDB, made anew when the catalog has changed; ``lending``: one for each user who asks
- ``allowed``: the functions that a query may call
- ``shape``: tables, views, columns and keys, read through the public API
- ``relations``: their rows in ``pg_catalog``; ``information``: in ``information_schema``
- ``functions``: functions of PostgreSQL as macros
- ``columns``: the columns of all catalogs, which ``columns.txt`` lists
"""
