"""ODL: the classes of a schema of objects, the fragment of MOVIE's Figure 1 and more of ODMG.

- ``cursor``: tokens; ``declarations``: what is written, with its place
- ``parse``: modules as written
- ``types``: enums, structs, type definitions and constants by their names
- ``resolve``: ``read_odl``: names given their meaning, and every error with its place
- ``write``: classes as ODL text
"""
