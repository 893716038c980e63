"""Tables with a primary key: their rows, found by key to check changes, and by other columns for stages.

- ``llvm_table``: checks a change against a table, takes it in, and shows it to stages.
- ``column_store``: columns of cells by row number with hash indexes, shared by stages.
- ``cell_column``: one such column.
- ``sift``: machine code that sorts the rows of a change by what they do.
- ``table_rows``: the other columns by row number: as they came, and those of the last few rows as Python has them.
"""
