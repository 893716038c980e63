"""A warehouse as a data source of Spark: what ``runtimes/spark/data_source`` needs of the engine.

- ``attached``: tables and views as temporary views of a session.
- ``register``: the format registered with a session.
- ``source``: the relations of a warehouse that Spark's workers open to read.
- ``intake``: the rows of a write or of a batch of a stream as one epoch, once.
- ``opened``: a warehouse opened by such a worker.
"""
