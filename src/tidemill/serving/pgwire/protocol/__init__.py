"""The two query protocols, and what comes before them.

- ``startup``: encryption, version, authentication; ``scram``: passwords
- ``simple``: a text of statements
- ``extended``: prepared statements and portals, perhaps many at once
- ``sending``: results on the wire
- ``copying``: COPY from the client
- ``positions``: where in a query an error points
"""
