"""Typed expressions over the columns of one row, and how they are built.

- ``scalars``: the nodes: column, literal, call, cast, case, subquery, lambda
- ``call``: a function applied by name: types resolved, implicit casts inserted
- ``interval_operators``: operators on intervals, dates and timestamps
- ``characters``: comparisons of CHAR columns, whose texts are filled up with spaces
- ``collations``: texts with a collation: which one holds, and comparisons by keys
- ``map_keys``: maps as keys of groups, by their sorted entries
- ``conditions``: conditions that AND joins, taken apart and put together
- ``ordering``: ORDER BY terms and sort keys
- ``conversions``: explicit and implicit casts of expressions
- ``arguments``: how many arguments a derived function has, and constants among them
- ``formatted``: conversions by a format, such as TO_CHAR
- ``derived_datetimes``: functions of dates and times defined by other expressions
- ``derived_functions``: functions defined by other expressions, such as NVL2; aliases; volatile functions
"""
