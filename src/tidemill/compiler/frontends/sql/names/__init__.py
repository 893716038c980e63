"""Names of columns and types.

- ``scope``: the columns that FROM brings into scope, and how a dotted name finds one
- ``column_labels``: the name of a column that has no alias
- ``data_types``: types in SQL syntax
- ``schemas``: types and lists of columns in texts
- ``assignments``: values for members of a column, and the whole column that they make
- ``projections``: the columns of a relation kept, narrowed or converted
"""
