"""Rows and types: what a value is, which tables and classes hold it, and every error.

- ``types``: the SQL types, with the Python and Arrow form of each
- ``array_tree``: large arrays as trees whose versions share what they have in common
- ``array_forms``: the one form of arrays inside of values of a type
- ``schema``: tables and streams as users declare them: fields, keys, constraints, partitioning
- ``intervals``: intervals as text; ``periods``: periods of time in words
- ``partition_lengths``: lengths of time partitions, calendar months among them: their numbers and first instants
- ``clocks``: clocks as relations of one row
- ``coerce``: outside values to inner values and back, for rows and nested values
- ``converters``: one converter for each plain type
- ``variants``: values of type VARIANT, in Python and inside
- ``classes``: ODL classes and the tables that hold their objects
- ``nested_classes``: classes from nested structs, and back
- ``update_events``: the update events of MOVIE
- ``whole_numbers``: whole numbers from texts of any length
- ``choices``: options that are one of a few words
- ``paths``: file and folder names as users write them
- ``redaction``: texts of errors without secrets
- ``errors``: the tree of errors; each says what, where, why and what next
"""
