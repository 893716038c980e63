"""Runtimes: they execute a compiled program, in this process or on Spark.

The engine knows a runtime by its protocol alone. Both runtimes give the same rows and the same errors; this package
holds what they share.

- ``runtime``: the protocol, all that the engine asks of a runtime.
- ``integrity``: changes that a table refuses: a deleted row that does not exist, a violated constraint, an overflow of
  a weight.
- ``time_partitions``: which time partitions of a stage must be recomputed in an epoch, and in which order.
- ``garbage_collection``: pauses Python's garbage collector while many rows are created.
- ``native``: the runtime in this process.
- ``spark``: the runtime on Spark.
- ``duckdb``: one-off queries and recomputation in columns; no runtime, as it keeps no state.
"""
