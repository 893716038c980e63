"""The syntax of JSON, CSV and XML texts, before any value of a type is made of them.

- ``options``: options of functions that read and write documents
- ``json_reader``: the tokens of a JSON text
- ``json_document``: a JSON value as a list of tokens
- ``json_paths``: the values at a path of a JSON text
- ``json_schema``: the schema of a JSON text
- ``csv_lines``: the fields of a CSV line
- ``xml_nodes``: XML texts as trees
- ``xpath``: XPath over them
"""
