"""Mapped files: columns and lookup indexes of runs, in files that are mapped into memory.

- ``derived_files``: files that can be made again, written whole and compared with their checksum when first mapped.
- ``mapped_run``: rows of a run by key, from its mapped columns and a mapped index.
- ``table_index``: the same for a segment in memory.
- ``lookup_costs``: when making such files pays.
- ``run_lookups``: the lookups in the runs of a store, and where their derived files are.
"""
