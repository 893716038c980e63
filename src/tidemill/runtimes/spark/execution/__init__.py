"""Execution: temporary views and jobs, and what comes back from them.

- ``errors``: Spark's errors as ours, one sentence that names the view.
- ``job_settings``: settings by size: small queries are one task that interprets its plan.
- ``arrow_frames``: Arrow tables as DataFrames and back, for every version of Spark.
- ``parquet_files``: Parquet files between Spark and the store, with row counts compared.
- ``remote_files``: files of an object store, read and written by tasks on other machines.
- ``temporary_views``: relations, maps and changes of an epoch as temporary views.
- ``results``: results of jobs as changes: small ones collected as Arrow, large ones written to files of the store.
- ``ad_hoc_queries``: queries over current contents, Spark's own answers, relations as DataFrames.
- ``base_reads``: counts of the rows that stages with a lineage read.
- ``time_partitions``: time partitions of a stage, recomputed from the partitions that they read.
- ``ingest``: DataFrames and streaming queries that users hand over, as changes of a table; ``nested_records``: records
  of nested files.
- ``spark_types``: the types of Spark that public functions take and return.
"""
