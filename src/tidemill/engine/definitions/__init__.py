"""Tables, views, sources and feeds created, replaced and dropped; each commits the catalog.

- ``tables_and_views``: tables and views created, replaced and dropped; shared stages are transferred
- ``sources_and_feeds``: sources and feeds created and dropped
"""
