"""The scalar functions and operators of Spark SQL: types, meaning in Python, spelling in Spark.

Add a function by declaring a ``Function`` in the module of its theme; ``registry`` collects them.

- ``function``: ``Function``, the declaration, and helpers for signatures
- ``registry``: ``FUNCTIONS``, all of them by name
- ``arithmetic``: operators on numbers, and their TRY_ forms
- ``bits``: operators and functions on the bits of integers
- ``comparison``: comparisons, three-valued logic, tests for NULL, and the order of values
- ``mathematics``: rounding, roots, powers, logarithms, angles
- ``numerals``: numbers in other bases
- ``number_formats``: numbers read by a format
- ``number_text``: numbers with commas between thousands
- ``strings``: text functions
- ``binary``: bytes: texts encoded and decoded, hexadecimal digits, Base64
- ``text_parts``: pieces of text, masks and check digits
- ``similarity``: edit distance and sounds
- ``urls``: parts of URLs, and their encoding
- ``hashes``: CRC32, HASH and XXHASH64
- ``regexp``: LIKE, RLIKE and the REGEXP_ functions
- ``java_regex``: translation of Java's regular expressions to RE2
- ``time``: dates and timestamps
- ``time_formats``: timestamps as texts of a pattern, and time zones
- ``time_units``: timestamps from parts, and moved or compared by units
- ``time_windows``: tumbling and sliding time windows, and numbers of time partitions
- ``nested``: making arrays and structs, and reading their elements
- ``maps``: making maps, looking keys up, and their keys, values and entries
- ``arrays``: array set operations, slices and sequences
- ``json``: JSON in texts
- ``higher_order``: functions that take a lambda
- ``ring_arithmetic``: exact products and sums that triggers compute with
- ``integer_bounds``: integers that bound comparisons with a DOUBLE
- ``variance``: the last step of variance, covariance and correlation
"""
