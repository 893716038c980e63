"""Materialized views as the catalog holds them.

- ``view``: ``View``, a materialized view with its program, options and freshness
- ``view_options``: options of WITH
- ``view_clock``: the clock of a view, by its option
- ``publication``: the options of a view that is published as a lake table
- ``seen_columns``: the columns that a view saw when it was created
- ``remote_subplans``: the subplans of a view that read sources, each with its protocol
- ``joined_rows``: views over joined rows, from which some can be held back
- ``view_index``: views by what they read and how they are refreshed, for epochs
- ``shared_stages``: equal stages that several views share, and their transfer to another view
- ``equal_views``: views with the same query under other names
- ``build_entry``: a view that is being built in the background
"""
