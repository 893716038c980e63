"""Tables with a primary key: their rows as columns, an index of their keys as machine code, and the check of changes.

- ``llvm_table``: checks a change against a table and takes it in.
- ``key_index``: primary keys and the numbers of their rows, at run time.
- ``emit_index``: the module of such an index.
- ``table_rows``: the rows by number: columns, and the last few as they came.
"""
