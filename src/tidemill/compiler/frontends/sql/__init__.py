"""Spark SQL queries and expressions to algebra.

- ``named_definitions``: views that are not materialized, functions in SQL, variables
- ``query``: SELECT, FROM, joins, set operations, WITH, ORDER BY and LIMIT
- ``registered_functions``: functions that users have registered
- ``rules``: the function that translates each kind of expression
- ``windows``: OVER, frames, ``window(...)`` and ``session_window(...)``
- ``patterns``: MATCH_RECOGNIZE and the PATTERN clause
- ``expressions``: scalars with Spark's types and implicit casts
- ``aggregation``: aggregates, GROUP BY and GROUPING SETS
- ``names``: scopes, labels of columns, names of types, projections
- ``table_references``: tables replaced in the text of a query
- ``grammar``: sqlglot's parser as Spark's, and the refusal of whatever has not been translated

Imports go down this list only; ``windows`` and ``patterns`` do not know each other.
"""
