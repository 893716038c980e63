"""The monoid algebra of Fegaras and Maier, with the text form of MOVIE's figures.

- ``operators``: get, join, unnest, nest, reduce
- ``unnest``: from comprehensions to operators
- ``attributes_read``: the attributes that a view reads, and its use of collections
- ``events``: the events that can change a view
"""
