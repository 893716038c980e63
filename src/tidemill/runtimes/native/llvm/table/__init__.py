"""Tables: their rows, found by key or as a whole to check changes, and by other columns for stages.

- ``llvm_table``: checks a change against a table with a primary key, takes it in, and shows it to stages.
- ``counted_rows``: checks a change against a table without one.
- ``column_store``: columns of cells by row number with hash indexes, shared by stages.
- ``cell_column``: one such column.
- ``row_index``: one such index.
- ``sift``: machine code that sorts the rows of a change by what they do.
- ``table_rows``: the other columns by row number: as they came, and those of the last few rows as Python has them.
"""
