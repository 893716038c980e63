"""Everything that serves a warehouse: thin, over the public Python API.

- ``access``: who may use a server, and what of it
- ``cli``: the command line
- ``console``: the page in a browser, and its files
- ``demo``: ``tidemill demo``
- ``server``: one process that owns a warehouse and opens doors to it
- ``http``: the door for HTTP
- ``client``: a warehouse that another process serves
- ``notebook``: the cell magic of notebooks
- ``pgwire``: PostgreSQL's wire protocol
- ``pipelines``: projects of Spark's declarative pipelines
- ``render``: tables, JSON lines and errors as text
"""
