"""Projects of Spark's declarative pipelines, refreshed by Tidemill instead of recomputed.

- ``project``: the datasets and flows of a project, from Python and SQL files alike
- ``external_tables``: tables that a pipeline reads and does not make
- ``graph``: the order in which datasets are made, and cycles refused
- ``plan``: how each dataset is refreshed, tried out in a warehouse in memory
- ``auto_cdc``: AUTO CDC as a view over change records
- ``state``: what a warehouse remembers of earlier runs
- ``run``: a run: definitions brought up to date, changes taken, streams appended, results published
- ``append``: new rows of sources appended to streaming tables
- ``recompute``: datasets that Spark computes, because they cannot be maintained
- ``outputs``: results as Parquet folders and Delta tables, where Spark would put them
- ``report``: what became of each dataset
"""
