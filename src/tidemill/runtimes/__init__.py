"""Runtimes: what runs a compiled program, in this process or on Spark.

The engine knows a runtime by its protocol alone. Both runtimes give the same rows and the same errors; what they share
stands here.

- ``runtime``: the protocol, all that the engine asks of a runtime.
- ``integrity``: changes that no table accepts: a row leaves that is not there, a constraint is violated, a weight
  overflows.
- ``time_partitions``: which time partitions of a stage must be recomputed in an epoch, and in which order.
- ``garbage_collection``: pauses Python's garbage collector while many rows are made.
- ``native``: the runtime in this process.
- ``spark``: the runtime on Spark.
"""
