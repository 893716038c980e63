"""Values of a schema read from JSON, CSV and XML texts, and written as such.

- ``json_values``, ``json_writer``: FROM_JSON and TO_JSON
- ``csv_values``: FROM_CSV and TO_CSV
- ``xml_values``: FROM_XML and TO_XML
- ``xml_schema``: the schema of an XML text
"""
