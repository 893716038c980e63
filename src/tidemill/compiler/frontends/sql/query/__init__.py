"""From queries of a parse tree to relations.

- ``translator``: ``QueryTranslator``: SELECT, VALUES, parentheses, and a query with its order
- ``from_clause``: FROM and WHERE: tables, subqueries and VALUES under their aliases
- ``time_filters``: conditions of WHERE that read the clock of a view
- ``versions``: VERSION AS OF behind the tables of a SELECT
- ``common_tables``: WITH
- ``recursion``: WITH RECURSIVE
- ``joins``: ON, USING and NATURAL; inner, outer, semi and anti
- ``asof_joins``: ASOF JOIN, with the closest row
- ``temporal_joins``: FOR SYSTEM_TIME AS OF a time of the row to the left
- ``table_functions``: RANGE
- ``window_table_functions``: TUMBLE, HOP, CUMULATE and SESSION
- ``lateral``: LATERAL VIEW, UNNEST and LATERAL
- ``pivot``: PIVOT and UNPIVOT
- ``samples``: TABLESAMPLE
- ``pipes``: queries with ``|>``, step by step
- ``select``: the SELECT list, GROUP BY, HAVING, QUALIFY and DISTINCT
- ``set_operations``: UNION, INTERSECT and EXCEPT
- ``limit``: LIMIT, OFFSET and FETCH
- ``order_by``: ORDER BY beside a query that is answered once, and within any other
- ``values``: VALUES, computed once
- ``context``: ``QueryContext``: relations by name, unique aliases, and translators for expressions and subqueries
"""
