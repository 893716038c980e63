"""ODL: the classes of a schema of objects, the fragment of MOVIE's Figure 1.

- ``parse``: a module as written
- ``resolve``: ``read_odl``: names given their meaning, and every error with its place
- ``write``: classes as ODL text
"""
