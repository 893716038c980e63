"""A stage as one LLVM module, and the code that runs it.

- ``emit_stage``: the module of a stage, with one function for each way in which rows come.
- ``check_stage``: which stages have no native form, and why.
- ``stage_code``: the contents of such a module.
- ``statements``: the statements of a trigger.
- ``emit_rows``: the output rows of touched keys.
- ``emit_top_k``: the rows of a top-k.
- ``emit_sessions``: the sessions around an instant whose sums change.
- ``emit_time_partitions``: time partitions, each computed by its query and compared with what it was.
- ``partition_bodies``: these queries, over slices of maps.
- ``time_partitions``: which partitions are computed at run time, and the window that is kept between them.
- ``multiset_groups``: touched groups with aggregates over multisets, as they were and as they are.
- ``emit_prefetch``: prefetches what the next rows will need.
- ``llvm_stage``: runs a stage: rows in, maps change, changed rows out.
- ``stage_state``: its maps, read from the store, brought up to date and given back.
- ``stage_functions``: the functions of a loaded module as Python calls them.
- ``event_entry``: one event from Python at a time, by a built-in function made at run time.
"""
