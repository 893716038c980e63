"""Local times, and the patterns by which timestamps are written and read.

- ``zones``: time zones, and local times in them
- ``fields``: the fields that patterns name, and the timestamp that fields make
- ``elements``: the elements of a pattern
- ``patterns``: patterns, from text to elements
"""
