"""Machine code: a stage or the index of a table as LLVM IR, compiled by llvmlite in this process.

llvmlite is imported in this package alone, and the package only when a stage is worth compiling. Imports run downwards:

- ``stage``: a stage as one module, and the code that runs it.
- ``matching``: row patterns over ordered partitions.
- ``windows``: window functions over ordered partitions.
- ``table``: tables with a primary key: their rows, an index of their keys, and the check of changes.
- ``joingraph``: walks through join graphs, with liveness and prefetching.
- ``queries``: queries as nested loops over maps.
- ``io``: rows in and out: Arrow columns, Python objects, interned strings, output buffers.
- ``maps``: one map as code: where records lie, how entries change, the journal of an epoch.
- ``containers``: hash tables, B+trees, ordered groups, adjacency lists, column buffers.
- ``scalars``: SQL expressions over nullable values.
- ``codegen``: layouts, control flow, functions, memory, the compiler and its cache.
"""
