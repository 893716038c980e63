"""Sizes and costs of tables and views.

- ``map_statistics``: entries, bytes and lookups of the maps of a view
- ``relation_statistics``: rows, changes, rates, reads and analyzed columns of tables and views
- ``costs``: the refresh log, and the costs of views; ``state_sizes``: what views keep in memory and on disk
- ``forecast``: what the next minute will cost
"""
