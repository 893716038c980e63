"""Tables with a primary key: their rows, found by key to check changes, and by other columns for stages.

- ``llvm_table``: checks a change against a table, takes it in, and shows it to stages.
- ``column_store``: columns of cells by row number with hash indexes, shared by stages.
- ``table_rows``: the whole rows by number: columns as they came, and the last few as Python has them.
"""
