"""Everything that serves a warehouse: thin, over the public Python API.

- ``cli``: the command line
- ``demo``: ``tidemill demo``
- ``render``: tables, JSON lines and errors as text
"""
