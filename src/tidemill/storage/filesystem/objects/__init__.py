"""Warehouses in object stores: S3, Google Cloud Storage, Azure.

- ``requests``: the requests that a warehouse makes, and their repetition where they fail for a moment.
- ``bucket``: a bucket of one of the clouds; ``obstore`` is imported here alone.
- ``object_files``: objects as the files of a warehouse.
- ``object_log``: the log as small objects, which a later writer ends.
- ``object_lock``: tokens of writers, each an object.
- ``store_access``: the variables by which processes of other machines open a store.
- ``run_copies``: copies of runs on this machine.
"""
