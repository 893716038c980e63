"""Live changes as clients get them.

- ``reader``: the changes for one client: those that it missed, then those that come
- ``server_sent``: a reader as server-sent events; ``web_socket``: as messages of a web socket
"""
