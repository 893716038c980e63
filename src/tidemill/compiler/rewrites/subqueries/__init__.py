"""Passes that remove subqueries from expressions.

- ``replace_quantifiers``: EXISTS, IN, ANY and ALL as scalar subqueries
- ``inline_subqueries``: subqueries over constants as expressions
- ``decorrelate``: correlated subqueries as joins with groups
- ``correlation``: the equalities that correlate a subquery
- ``dependent_joins``: a relation computed for all outer values at once
"""
