"""Values on the wire: which type of PostgreSQL stands for each of ours, and its forms.

- ``oids``: the types of PostgreSQL, and which of them stands for a column of ours
- ``text``: values as PostgreSQL prints them
- ``binary``: values in its binary format
- ``documents``: structs, maps and variants as jsonb
- ``intervals``: months, days and microseconds
- ``rows``: encoders of whole rows
- ``parameters``: values from clients
"""
