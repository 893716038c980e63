"""What names mean.

- ``scope``: the columns that FROM brings in sight, and how a dotted name finds one
- ``column_labels``: the name of a column that has no alias
- ``data_types``: types as SQL spells them
"""
