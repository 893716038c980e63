"""Statements of clients, each with a plan that describes and runs it.

- ``plan``: which plan a statement has
- ``engine_plan``: statements of the warehouse
- ``control``: BEGIN, SET, SHOW, DISCARD and other statements about the session
- ``cursors``: DECLARE, FETCH, CLOSE
- ``subscribe``: SUBSCRIBE TO a view
- ``copy_statement``, ``copy_formats``, ``copy_plan``: COPY
- ``reader``: reads the words of such statements
"""
