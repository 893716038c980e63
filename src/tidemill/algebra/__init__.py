"""The meaning of a view: typed expressions, relational nodes, and the evaluator that defines them.

Each package imports only those above it in this list.

- ``node``: the base classes of expressions and relations, and memoization by node
- ``values``: decimals, casts, text formats and type coercion, by Spark's rules
- ``sketches``: sketches of Apache DataSketches, and their bytes
- ``functions``: the declaration and Python meaning of every scalar function
- ``expressions``: expression nodes, and how functions are applied to them
- ``aggregates``: the declaration and Python meaning of every aggregate, and aggregate calls
- ``relational``: relational nodes, window calls, and the walk over trees
- ``kernels``: plain Python frames and window functions over the rows of a partition
- ``matching``: row pattern matching over an ordered partition
- ``evaluate``: the evaluator: the rows of any relation, given its tables
- ``user_functions``: functions and aggregates that users register in a warehouse
- ``text``: expressions and relations in SQL-like text, for EXPLAIN and errors
- ``plan_text``: a relation as a tree of lines
"""
