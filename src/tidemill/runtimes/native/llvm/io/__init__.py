"""Rows into and out of machine code.

- ``string_dictionary``: interned strings, shared by Python and emitted code.
- ``arrow_columns``: Arrow columns as cells and back, by NumPy.
- ``input_rows``: Arrow batches read in place, Python rows packed into records.
- ``native_map``: a map as Python sees it: Arrow tables in and out.
- ``few_records``: a few records of a map as Python has them.
- ``output_code``: output rows, appended by emitted code.
- ``posted_rows``: a row as its emission says, appended.
- ``run_end_encoding``: output rows that differ in the columns of one list alone.
- ``output_buffers``: output rows at run time, handed on as Arrow without a copy.
- ``python_objects``: Python objects read by the rules of CPython.
- ``python_functions``: functions that emitted code calls in Python.
- ``event_code``: the function that takes one event from Python objects.
"""
