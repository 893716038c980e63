"""A warehouse that another process serves, with the face of a local one.

- ``connect``: ``tidemill.connect``
- ``remote_warehouse``: ``RemoteWarehouse``: statements, changes, handles
- ``remote_relations``: tables and views
- ``remote_subscription``: live changes, over lost connections
- ``connection``: requests and their answers; errors come back as the same classes
- ``decoded``: rows of Arrow as Python users see them
"""
