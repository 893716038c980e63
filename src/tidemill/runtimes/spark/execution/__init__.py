"""Execution: sessions, temporary views and jobs, and what comes back from them.

- ``session``: a local session of our own, or a branch of one that a user gave us; the settings that decide answers.
- ``standalone_cluster``: a cluster of processes on this machine, for the demo, benchmarks and tests.
- ``worker_packages``: Tidemill sent to the workers of a cluster, and what they lack.
- ``python_daemon``: the process that a local Spark forks its Python workers from.
- ``java``: finding a Java that Spark can run on.
- ``errors``: Spark's errors as ours, one sentence that names the view.
- ``job_settings``: settings by size: small queries are one task that interprets its plan.
- ``job_counters``: jobs, bytes read and bytes written of an epoch.
- ``arrow_frames``: Arrow tables as DataFrames and back, for every version of Spark.
- ``parquet_files``: Parquet files between Spark and the store, with row counts compared.
- ``remote_files``: files of an object store, read and written by tasks on other machines.
- ``temporary_views``: relations, maps and changes of an epoch as temporary views.
- ``results``: results of jobs as changes: small ones collected as Arrow, large ones written to files of the store.
- ``ad_hoc_queries``: queries over current contents, Spark's own answers, relations as DataFrames.
- ``time_partitions``: time partitions of a stage, recomputed from the partitions that they read.
- ``ingest``: DataFrames and streaming queries that users hand over, as changes of a table; ``nested_records``: records
  of nested files.
- ``session_functions``: Python functions that are registered with a session.
- ``spark_types``: the types of Spark that public functions take and return.
"""
