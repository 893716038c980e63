"""The scalar functions and operators of Spark SQL: types, meaning in Python, spelling in Spark.

Add a function by declaring a ``Function`` in the module of its theme; ``registry`` collects them.

- ``function``: ``Function``, the declaration, and helpers for signatures
- ``registry``: ``FUNCTIONS``, all of them by name
- ``comparison``: comparisons, three-valued logic, tests for NULL, and the order of values
- ``numbers``: arithmetic, bits, mathematics, numbers as texts
- ``text``: texts and bytes: pieces, patterns, encodings, hashes
- ``datetime``: dates and timestamps
- ``nested``: structs, arrays, maps, and functions that take a lambda
- ``semistructured``: JSON and CSV in texts, variants
"""
