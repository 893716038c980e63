"""SHOW statements.

- ``show_readers``: all of them; ``show_refreshes``: SHOW REFRESHES, SHOW COSTS, SHOW STATE
"""
