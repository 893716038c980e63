"""Rows that are sent: many small posts become one sync.

- ``door``: answers posts to tables before all routes, since there are thousands in a second
- ``given_rows``: the rows in a body one by one, so that bad ones can be set aside
- ``bodies``: the rows in a body, by its type; ``arrow_streams``: those of Arrow
- ``decoded_bytes``: what a body takes in memory, limited
"""
