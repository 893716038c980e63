"""The Spark runtimes: lookups in files for small epochs, tasks for bulk changes, DataFrames for what is larger.

Three runtimes share this package, and ``engine`` chooses between them by the size of an epoch:

- ``dataframe_runtime``: ``DataFrameRuntime``, "spark dataframes", in which every stage of an epoch is one job.
- ``driver_runtime``: ``DriverRuntime``, "spark driver", in which the stored rows that a small change touches are
  looked up in files, which tasks make, and the native runtime does the rest in this process.
- ``task_runtime``: ``TaskRuntime``, "spark tasks", in which tasks run the native program on parts of a change.

Below them, each module or package imports only those after it:

- ``pipelines``: projects of Spark's declarative pipelines, loaded without a server.
- ``data_source``: a warehouse as a data source of any session: rows, streams of changes, writes.
- ``bulk_check``: the check of bulk changes by tasks, as the driver sees it.
- ``tasks``: what a task of the third one does, in a worker of Spark.
- ``state_in_store``: the part of the protocol that is about state in memory, for a runtime that has none.
- ``lookup``: which stored rows an epoch touches: prefetched lookups, touched rows, checks of keys and constraints.
- ``execution``: running SQL: temporary views, results, files, errors, and users' DataFrames.
- ``sessions``: sessions, and the processes behind them: Java, Python workers, clusters on this machine.
- ``lowering``: from programs to Spark SQL text. It starts no job.
"""
