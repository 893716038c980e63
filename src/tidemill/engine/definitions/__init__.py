"""Tables, views, sources and feeds created, replaced and dropped; each commits the catalog.

- ``tables_and_views``: CREATE and DROP of tables and views; shared stages are transferred
- ``replace_view``: a view built first and swapped in one commit
- ``sources_and_feeds``: CREATE and DROP of sources and feeds
"""
