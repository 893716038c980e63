"""From queries of a parse tree to relations.

- ``translator``: ``QueryTranslator``, one ``from_...`` for each construct: FROM, WITH, VALUES, parentheses
- ``select``: the SELECT list, GROUP BY, HAVING, QUALIFY and DISTINCT
- ``joins``: ON, USING and NATURAL; inner, outer, semi and anti
- ``lateral``: LATERAL VIEW, UNNEST and LATERAL
- ``set_operations``: UNION, INTERSECT and EXCEPT
- ``recursion``: WITH RECURSIVE
- ``order_by``: ORDER BY beside a query that is answered once, and within any other
- ``limit``: LIMIT, OFFSET and FETCH
- ``values``: VALUES, computed once
"""
