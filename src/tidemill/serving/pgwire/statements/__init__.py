"""Statements of clients, each with a plan that describes and runs it.

- ``plan``: which plan a statement has
- ``engine_plan``: statements of the warehouse
- ``control``: BEGIN, SET, SHOW, DISCARD and other statements about the session
- ``reader``: reads the words of such statements
"""
