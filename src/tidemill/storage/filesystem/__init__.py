"""File systems: disks and object stores; durable files, locks, links, checksums.

- ``file_path``, ``file_system``: what the store asks of paths, and of the file system that has them.
- ``addresses``: the folder or address of a warehouse, as users write it.
- ``disk``: disks of this machine.
- ``objects``: object stores.
- ``durable_files``: files written whole and synced with their folder; errors for damaged files; fault points for crash
  tests.
- ``small_writes``: writes of a few bytes, without giving up the interpreter's lock.
- ``symlinks``: symbolic links below a warehouse folder are refused.
- ``writer_lock``: one writer at a time, with a fencing token.
- ``fetched_file``: files as any process opens them, on an object store by a copy that is fetched.
- ``checksums``: comparing files with their length and CRC-32, once per process.
- ``row_group_checksums``: a checksum for each row group of a Parquet file.
"""
