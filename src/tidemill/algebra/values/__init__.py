"""Values by Spark's rules, without any node: arithmetic types, casts, text and coercion.

- ``decimals``: result types of DECIMAL arithmetic, rounding and overflow
- ``singles``: FLOAT, which is rounded to 32 bits
- ``casts``: CAST and TRY_CAST between all types, in ANSI mode
- ``formats``: how values are written as text and read back
- ``singles``: numbers of 32 bits
- ``zones``: time zones, and local times in them
- ``datetime_patterns``: timestamps written and read by a pattern
- ``datetime_elements``: the elements of such a pattern
- ``datetime_fields``: the fields that they name, and the timestamp that fields make
- ``json_reader``: the tokens of a JSON text
- ``json_paths``: the values at a path of a JSON text
- ``json_writer``: values as JSON
- ``coercion``: the common type of several types, and which conversions are implicit
"""
