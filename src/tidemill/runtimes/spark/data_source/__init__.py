"""A warehouse as a data source of Spark 4: ``format("tidemill")`` for reading, for streams of changes and for writing.

Spark calls these classes in Python workers, so they hold nothing but options. What needs a catalog is the engine's,
which subclasses ``source.WarehouseSource``.

- ``source``: the data source: its schema, its readers and its writers.
- ``readers``: rows as of an epoch, and changes as a stream.
- ``writers``: rows of tasks, collected and committed once.
- ``relation``: what readers and writers ask of a warehouse.
- ``sessions``: what a session must have for it, and relations as temporary views.
- ``options``: the options of all of them.
"""
