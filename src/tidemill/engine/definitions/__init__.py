"""DDL: tables, views, sources and feeds created, replaced and dropped; each commits the catalog.

- ``tables_and_views``: tables and views; shared stages of a dropped view are transferred
- ``sources_and_feeds``: sources and feeds
"""
