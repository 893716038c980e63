"""Statements that list what there is.

- ``show``: SHOW statements; ``show_refreshes``: SHOW REFRESHES, SHOW COSTS, SHOW STATE
- ``details``: DESCRIBE EXTENDED
"""
