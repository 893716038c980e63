"""Values by Spark's rules, without any node: arithmetic types, casts, text and coercion.

- ``decimals``: result types of DECIMAL arithmetic, rounding and overflow
- ``singles``: FLOAT, which is rounded to 32 bits
- ``casts``: CAST and TRY_CAST between all types, in ANSI mode
- ``interval_casts``: CAST to and from intervals
- ``formats``: how values are written as text and read back
- ``datetime``: time zones, and patterns by which timestamps are written and read
- ``documents``: the syntax of JSON, CSV and XML texts
- ``records``: values read from such texts by a schema, and written as such
- ``variants``: VARIANT from and to JSON and other types
- ``variant_edits``: variants with a part inserted, replaced or taken away
- ``aes``: blocks encrypted and decrypted, and chained
- ``coercion``: the common type of several types, and which conversions are implicit
"""
