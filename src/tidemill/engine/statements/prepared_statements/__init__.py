"""Statements that are translated once and run with other values.

- ``prepared``: such statements; ``parameters``: values of ``:name`` and ``?``
- ``point_read``: rows of one key, from memory and at once
- ``describe``: types of parameters and columns before a statement is run
"""
