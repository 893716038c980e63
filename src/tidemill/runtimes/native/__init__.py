"""The native runtime: stages in this process, as generated Python or as machine code.

A stage is first compiled to readable Python over dictionaries, and to machine code once it has processed enough rows to
pay for compiling it. Both back ends run the same program, keep the same journal of an epoch and store the same changes.

- ``runtime``: ``NativeRuntime``, which implements the protocol of ``runtimes.runtime``.
- ``backends``: which stages run as machine code and which as Python, and why.
- ``executor``: runs generated Python: triggers, loads, queries, and the lookups that they need.
- ``prepare_trigger``: triggers with all that they read of maps in memory, for changes of one row.
- ``planned_lookups``: lookups that queries are about to make, so that those of many can be made together.
- ``batched_calls``: calls of functions of batches, made for all rows of a loop at once.
- ``row_by_row``: triggers that take one row at a time, and what each row touches.
- ``runtime_state``: relations and maps in memory, read from the store when they are first used.
- ``state_room``: the room that a memory budget leaves for state, and the release of what was not used for long.
- ``missed_epochs``: catching up state that has missed epochs.
- ``fault_location``: the context of generated code: exact decimals, and faults that name the view and its rows.
- ``python``: generates Python.
- ``operators``: compute output rows from maps: groups, multisets, top-k, windows, patterns, recursion.
- ``state``: maps, indexes and snapshots in memory.
- ``llvm``: generates machine code.
"""
