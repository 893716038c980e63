"""The text of OQL as a syntax tree.

- ``tokens``: words, numbers, signs, and a cursor over them
- ``nodes``: the classes of the tree, each node with its place
- ``casts``: types in parentheses
- ``parse``: a method for each level of the grammar
"""
