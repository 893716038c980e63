"""One epoch, from changes to commit: all tables and all views together, or nothing.

- ``state``: ``EngineState``: the store, and its in-memory state (catalog, pipeline, runtimes, lock)
- ``transaction``: the state machine of an epoch, and the rollback after an exception
- ``apply``: one epoch of changes; ``combining``: epochs of several threads, run by one of them
- ``apply_each``: independent changes that share a sync; ``post_keys``: keys by which the same change is known again
- ``events``: events one at a time, gathered in an open epoch; ``event_order``: the order of replayed events
- ``open_epoch``: an epoch that takes changes one by one
- ``pipeline``: changes propagated through the stages of all views, in topological order
- ``table_checks``: changes compared with their tables and constraints
- ``clock_advance``: the event clocks that the rows of an epoch advance
- ``isolation``: finds rows that views cannot compute, and runs the epoch without them
- ``recomputation``: views that a large change computes again, the difference propagated
- ``spark_ways``: the runtimes of the views that an epoch runs on Spark, by what each is predicted to take
- ``commit``: begins, collects and commits an epoch; a changed catalog is committed the same way
- ``joint``: several commits that become one
- ``reader``: rows of tables and views, and answers to queries, now or as of an epoch
- ``guarded_reads``: views that set rows aside, as a transaction sees them
- ``keyed_reads``: queries by primary key, answered from the rows under these keys
- ``placement``: the choice of a runtime for each view
- ``memory_budget``: the memory limit of this process
- ``weights``: refuses weights that exceed 64 bits
- ``staleness_marks``: the oldest change that a deferred view does not show, stored among the positions
"""
