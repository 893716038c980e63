"""The SQL of Spark's declarative pipelines: which datasets and flows a file defines, and what their queries read.

- ``definitions``: what a file can define, as plain data
- ``references``: the tables that a query names, with STREAM taken out and names replaced
- ``stream_rules``: which queries over a stream give new rows for new rows alone
- ``read_file``: a file, statement by statement
"""
