"""Statements in PostgreSQL's dialect, for tools that quote and cast its way.

- ``translate``: from PostgreSQL's dialect to Spark's, or a refusal by name
- ``labels``: names of columns that have none
- ``meanings``: operators and functions that mean something else in Spark, by the types of their operands
"""
