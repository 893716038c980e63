"""Functions of documents that are stored as values.

- ``json``: JSON in texts
- ``csv``: CSV lines
- ``xml``: XPath over XML in texts
- ``variant``: values of any type, and paths into them
- ``sketches``: sketches in bytes
- ``tuple_sketches``: sketches with a number for each key
"""
