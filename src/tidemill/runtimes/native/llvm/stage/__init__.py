"""A stage as one LLVM module, and that module at work.

- ``emit_stage``: the module of a stage, with one function for each way in which rows come.
- ``stage_code``: what is in such a module.
- ``statements``: the statements of a trigger.
- ``emit_rows``: the output rows of touched keys.
- ``emit_top_k``: the rows of a top-k.
- ``multiset_groups``: touched groups with aggregates over multisets, as they were and as they are.
- ``emit_prefetch``: prefetches what the next rows will need.
- ``llvm_stage``: runs the module: rows in, maps change, changed rows out.
- ``event_entry``: one event from Python at a time, by a built-in function made at run time.
"""
