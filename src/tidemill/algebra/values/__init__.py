"""Values by Spark's rules, without any node: arithmetic types, casts, text and coercion.

- ``decimals``: result types of DECIMAL arithmetic, rounding and overflow
- ``singles``: FLOAT, which is rounded to 32 bits
- ``casts``: CAST and TRY_CAST between all types, in ANSI mode
- ``formats``: how values are written as text and read back
- ``coercion``: the common type of several types, and which conversions are implicit
"""
