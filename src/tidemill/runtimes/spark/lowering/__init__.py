"""Lowering: stages, queries and expressions of a program as Spark SQL text. Nothing here starts a job.

- ``sql_text``: identifiers, literals, types and expressions as text; every cast written out.
- ``types``: Spark's types as ours, and ours as Spark's.
- ``interval_columns``: intervals at the boundary between Arrow and Spark.
- ``ring_values``: terms, sums and stored columns of ring values, exact for BIGINT, DECIMAL and DOUBLE.
- ``queries``: nested loops over sources as joins, loops over arrays as lateral views.
- ``change_split``: the rows of a change that stay under their key, or are new to it.
- ``stages``: the change of a map, and the old and new output rows of the keys that it touches.
- ``multiset_aggregates``: aggregates such as MIN that need all entries of a group, for the touched keys.
- ``partitions``: top-k, windows and patterns over the touched partitions of a map of rows.
- ``sessions``: what an epoch adds to a map of sessions, from sums at instants.
- ``window_functions``: window functions as Spark SQL, where that is exact.
- ``udf_forms``: a function over arrays as a UDF, for every version of Spark.
- ``python_udfs``: UDFs with the evaluator's own code, for what Spark SQL does not compute exactly as we define
  it.
"""
