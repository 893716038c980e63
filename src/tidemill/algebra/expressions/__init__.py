"""Typed expressions over the columns of one row, and how they are built.

- ``scalars``: the nodes: column, literal, call, cast, case, subquery, lambda
- ``call``: a function applied by name: types resolved, implicit casts inserted
- ``conditions``: conditions that AND joins, taken apart and put together
- ``ordering``: ORDER BY terms and sort keys
- ``conversions``: explicit and implicit casts of expressions
- ``derived_functions``: functions defined by other expressions, such as NVL2; aliases; volatile functions
"""
