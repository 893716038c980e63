"""The monoid algebra of Fegaras and Maier, with the text form of MOVIE's figures.

- ``operators``: get, join, unnest, nest, reduce
- ``unnest``: from comprehensions to operators
- ``view_classes``: MOVIE's classes of views, and the attributes that a view reads
- ``events``: the events that can change a view
"""
