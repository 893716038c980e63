"""Items of FROM, without joins.

- ``from_clause``: FROM and WHERE: tables, subqueries and VALUES under their aliases
- ``versions``: VERSION AS OF behind the tables of a SELECT
- ``samples``: TABLESAMPLE
- ``table_functions``: RANGE
- ``window_table_functions``: TUMBLE, HOP, CUMULATE and SESSION
- ``lateral``: LATERAL VIEW, UNNEST and LATERAL
- ``values``: VALUES, computed once
"""
