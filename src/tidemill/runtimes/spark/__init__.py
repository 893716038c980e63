"""The program as DataFrames: one Spark job for each stage of an epoch."""
