"""One epoch, from changes to commit: all tables and all views together, or nothing.

- ``state``: ``EngineState``: the store, and its in-memory state (catalog, pipeline, runtimes, lock)
- ``transaction``: the state machine of an epoch, and the rollback after an exception
- ``apply``: one epoch of changes; ``concurrent_changes``: those of several callers
- ``single_events``: events one at a time, gathered in an open epoch
- ``pipeline``: changes propagated through the stages of all views, in topological order
- ``table_checks``: changes compared with their tables and constraints
- ``clock_advance``: the event clocks that the rows of an epoch advance
- ``isolation``: finds rows that views cannot compute, and runs the epoch without them
- ``recomputation``: views that a large change computes again, the difference propagated
- ``spark_ways``: the runtimes of the views that an epoch runs on Spark, by what each is predicted to take
- ``commit``: begins, collects and commits an epoch; a changed catalog is committed the same way
- ``joint``: several commits that become one
- ``reading``: rows of tables and views, and answers to queries, now or as of an epoch
- ``placement``: the choice of a runtime for each view
- ``memory_budget``: the memory limit of this process
- ``weights``: refuses weights that exceed 64 bits
- ``staleness_marks``: the oldest change that a deferred view does not show, stored among the positions
"""
