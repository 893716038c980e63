"""Functions of nested values.

- ``structs``: making arrays and structs, and reading their elements
- ``arrays``: array set operations, slices and sequences
- ``vectors``: products, distances and norms of arrays of FLOATs
- ``maps``: making maps, looking keys up, and their keys, values and entries
- ``higher_order``: functions that take a lambda
"""
