"""Weighted rows: Z-sets, and the forms in which changes travel.

- ``zset``: rows with integer weights
- ``changeset``: the change of one relation as pairs, Arrow or files; and the epoch that commits several
- ``arrow``: weighted rows to Arrow and back
- ``alterations``: changes of columns, applied to rows that were stored before
- ``formulas``: columns that are computed when rows are read
- ``hashing``: hashes of rows that are columns
- ``sorted_hashes``: an index by which rows that are columns are found
- ``run_end_encoding``: columns in which equal neighbours are stored once
- ``split``: a change split into rows that stay under their key and rows that arrive
"""
