"""The catalog: tables, streams, views, sources, feeds and functions by name, stored in the manifest as SQL.

It is data: it reads no rows and commits nothing. ``engine.definitions`` changes it.

- ``catalog``: ``Catalog``, lookup by name and the rules for adding and dropping
- ``view``: ``View``, a materialized view with its program, options and freshness
- ``view_index``: views by what they read and how they are refreshed, for epochs
- ``build_entry``: a view that is being built in the background
- ``define_view``: compiles a query into a ``View``
- ``serialization``: the catalog as JSON, and back
- ``view_options``: options of WITH; ``refresh_mode``: immediate, deferred, scheduled or periodic
- ``view_clock``: the clock of a view, by its option
- ``publication``: the options of a view that is published as a lake table
- ``ddl``: tables as CREATE TABLE statements; ``definition``: views as the statements that create them
- ``altered``: a table after ALTER TABLE, as data; ``seen_columns``: the columns that a view saw when it was created
- ``replaced_view``: a view with another query, and what follows for the views that read it
- ``recompiled_view``: a view over other definitions, by the text that it has
- ``staged_view``: a view of a stage that takes the place of another
- ``shared_stages``: equal stages that several views share, and their transfer to another view
- ``equal_views``: views with the same query under other names
- ``joined_rows``: views over joined rows, from which some can be held back
- ``entries``: sources, feeds, constraints, functions, statistics and object classes
- ``remote_subplans``: the subplans of a view that read sources, each with its protocol
- ``unique_keys``: columns that identify the rows of a view; ``view_instances``: views whose rows have identities
"""
