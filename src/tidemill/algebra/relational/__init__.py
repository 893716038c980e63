"""Relational nodes: frozen dataclasses, each a function from Z-sets to a Z-set.

- ``relations``: scan, filter, project, join, aggregate, set operations, top-k, window, recursion
- ``windows``: window function calls and frames
- ``time_partitions``: relations defined time partition by time partition (ViewDF)
- ``row_patterns``: row patterns as regular expressions over pattern variables
- ``match``: rows that match a pattern (MATCH_RECOGNIZE), as a relation
- ``walk``: children, transformation, columns read, substitution
"""
