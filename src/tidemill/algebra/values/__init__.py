"""Values by Spark's rules, without any node: arithmetic types, casts, text and coercion.

- ``decimals``: result types of DECIMAL arithmetic, rounding and overflow
- ``singles``: FLOAT, which is rounded to 32 bits
- ``casts``: CAST and TRY_CAST between all types, in ANSI mode
- ``interval_casts``: CAST to and from intervals
- ``formats``: how values are written as text and read back
- ``singles``: numbers of 32 bits
- ``zones``: time zones, and local times in them
- ``datetime_patterns``: timestamps written and read by a pattern
- ``datetime_elements``: the elements of such a pattern
- ``datetime_fields``: the fields that they name, and the timestamp that fields make
- ``json_reader``: the tokens of a JSON text
- ``json_paths``: the values at a path of a JSON text
- ``json_writer``: values as JSON
- ``json_document``: a JSON value as a list of tokens
- ``json_values``: JSON read by a schema
- ``json_schema``: the schema of a JSON text
- ``csv_lines``: the fields of a CSV line
- ``csv_values``: CSV lines read by a schema, and written
- ``variants``: VARIANT from and to JSON and other types
- ``variant_edits``: variants with a part inserted, replaced or taken away
- ``xml_nodes``: XML texts as trees
- ``xpath``: XPath over them
- ``xml_values``: records from and to XML
- ``xml_schema``: the schema of an XML text
- ``aes``: blocks encrypted and decrypted, and chained
- ``document_options``: options of functions that read and write documents
- ``coercion``: the common type of several types, and which conversions are implicit
"""
