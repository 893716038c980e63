"""Everything that serves a warehouse: thin, over the public Python API.

- ``cli``: the command line
- ``demo``: ``tidemill demo``
- ``notebook``: the cell magic of notebooks
- ``render``: tables, JSON lines and errors as text
"""
