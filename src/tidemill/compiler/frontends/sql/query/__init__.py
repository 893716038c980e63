"""From queries of a parse tree to relations.

- ``translator``: ``QueryTranslator``: SELECT, VALUES, parentheses, and a query with its order
- ``from_items``: FROM and WHERE: tables, subqueries, functions, samples and versions of tables
- ``joins``: joins by conditions, with the closest row, and as of a time
- ``time_filters``: conditions of WHERE that read the clock of a view
- ``common_tables``: WITH
- ``recursion``: WITH RECURSIVE
- ``pivot``: PIVOT and UNPIVOT
- ``pipes``: queries with ``|>``, step by step
- ``select``: the SELECT list, GROUP BY, HAVING, QUALIFY and DISTINCT
- ``set_operations``: UNION, INTERSECT and EXCEPT
- ``limit``: LIMIT, OFFSET and FETCH
- ``order_by``: ORDER BY beside a query that is answered once, and within any other
- ``context``: ``QueryContext``: relations by name, unique aliases, and translators for expressions and subqueries
"""
