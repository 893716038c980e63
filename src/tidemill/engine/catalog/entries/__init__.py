"""Entries of the catalog beside relations.

- ``source_entry``, ``feed_entry``, ``lake_entry``: sources, folder feeds and lake tables
- ``errors_table``: the table of the rows that a view cannot compute
- ``grants``: rights on tables and views
- ``constraints``: foreign keys and checks over all tables
- ``named_definitions``: views that are not materialized, and functions in SQL
- ``deploy_stage``: a version of views that lives beside the present one
- ``user_functions``: registered functions and aggregates; ``batch_functions``: those of pandas Series and Arrow arrays
- ``analyzed_columns``: statistics of columns, as of the epoch that they were computed in
- ``object_module``: the ODL module of a warehouse; ``oql_queries``: OQL over it
"""
