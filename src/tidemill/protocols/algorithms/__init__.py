"""The maintenance algorithms, one module each; all implement ``protocols.protocol``.

- ``eca``: the Eager Compensating Algorithm; strong consistency.
- ``eca_key``: ECA-Key, for views that show the key of every relation.
- ``eca_local``: ECA-Local, which handles updates without the source where possible.
- ``lca``: the Lazy Compensating Algorithm; complete consistency.
- ``sweep``: SWEEP, for several sources; ``sweep_hops``: the queries from source to source.
- ``copies``: copies of the relations in the warehouse.
- ``recompute``: the whole view queried again.
"""
