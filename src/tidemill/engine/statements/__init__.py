"""Each SQL statement, done by the engine.

- ``execute``: from a parsed statement to its function; definitions and REFRESH
- ``changes``: INSERT, UPDATE, DELETE
- ``show``: SHOW statements
- ``select``: queries asked once, ordered and limited
"""
