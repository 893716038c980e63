"""Python code generation: a stage as readable functions over dictionaries.

``compile`` is the entry point. EXPLAIN shows the generated text, and tracebacks show its lines.

- ``compile``: a stage or a query as compiled functions.
- ``nested_loops``: a query as nested ``for`` loops with index lookups.
- ``accumulation``: the innermost lines of a loop, which add a row to the sums of its key.
- ``map_entries``: how sums are added to an entry of a map, and the output row of an entry.
- ``output``: the functions from which the operators of a stage are built.
- ``windows``, ``match``: the functions that window functions and patterns need.
- ``row_functions``: functions of one row: its sort key, its output row, its values.
- ``scalar_functions``: one scalar as a function of its columns.
- ``check_conditions``: CHECK constraints as functions.
- ``expressions``: scalars as Python expressions.
- ``templates``: operators that are inlined instead of called.
- ``scalar_properties``: static properties of a scalar, such as that it cannot fail.
- ``decimal_use``: stages that compute no DECIMAL.
- ``access``: the inputs of a generated function, and their form.
- ``function_writer``: the lines of a function under construction.
- ``identifiers``: unique names for variables, functions and constants.
"""
