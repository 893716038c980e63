"""The catalog: tables, streams, views, sources, feeds and functions by name, stored in the manifest as SQL.

It is data: it reads no rows and commits nothing. ``engine.definitions`` changes it.

- ``catalog``: ``Catalog``, lookup by name and the rules for adding and dropping
- ``views``: materialized views with their options, and what follows from several of them
- ``entries``: sources, feeds, constraints, functions, statistics and object classes
- ``altered``: a table after ALTER TABLE, as data
- ``new_views``: views compiled over a catalog: those of a statement, and those that replace others
- ``serialization``: the catalog as JSON, and back
- ``refresh_mode``: immediate, deferred, scheduled or periodic
- ``ddl``: tables as CREATE TABLE statements; ``definition``: views as the statements that create them
"""
