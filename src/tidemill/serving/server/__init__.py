"""The server: one process that owns a warehouse and opens the doors to it.

- ``server``: starts the doors on one event loop, and shuts down in order
- ``statement_pool``: the bounded threads in which doors run what may wait or take long
- ``http_protocol``: uvicorn's side of a connection
- ``settings``: where doors listen, and their limits
"""
