"""The monoid calculus of Fegaras and Maier: the meaning of a query.

- ``types``: values, references to objects, collections and records
- ``terms``: variables, paths, operations, records and comprehensions
- ``functions``: functions of terms: their types, and the scalars that they become
- ``calls``: functions, operators and aggregates as OQL calls them
- ``casts``: casts to types of values and to classes
- ``context``: ``TermContext``: classes, views and variables by name
- ``translator``: from syntax to terms, with every error found on the way
- ``normalize``: nested comprehensions made flat
"""
