"""Patterns over ordered rows.

- ``pattern_clause``: ``FROM s PATTERN (a, b+)`` as in ViewDF, with the conditions of WHERE given to their variables
- ``match_recognize``: MATCH_RECOGNIZE of the SQL standard
- ``navigation``: ``a.loss``, ``d[i-1].loss``, PREV, NEXT, FIRST, LAST and aggregates over the rows of a match
"""
