"""The engine: one warehouse, its catalog, and the epochs that maintain its views.

- ``open_warehouse``: ``open``
- ``warehouse``: ``Warehouse``, the public class; thin
- ``row_changes``, ``relation_reads``, ``warehouse_costs``: its methods that run statements and change rows, that read,
  and that tell of costs
- ``sessions``: ``Session``, what one user holds of a warehouse
- ``access``: what a session may read and change
- ``calls``: the session that each thread works for, and how its call is ended
- ``data_source``: what Spark's data source needs of a warehouse, and relations as temporary views of a session
- ``handles``: public handles of tables, views and snapshots
- ``check``, ``repair``: a folder checked against its checksums, and repaired
- ``copies``: backups, restored warehouses and clones
- ``projects``: folders of SQL files, planned, deployed and compared
- ``engine``: ``Engine``, which creates the components below and connects them
- ``statements``: execution of SQL statements
- ``inspect``: EXPLAIN, verification, audits, lineage, staleness
- ``objects``: objects of ODL classes, stored in tables
- ``definitions``: tables, views, sources and feeds created, replaced and dropped
- ``builds``: views filled in slices in the background, and swapped in
- ``refresh``: initial load, refresh and scheduling of views
- ``remote``: views over sources, and folder feeds
- ``maintenance``: compaction, change logs, vacuum
- ``streams``: batches of streaming queries as epochs
- ``subscriptions``: changes of views delivered to subscribers
- ``epochs``: one epoch, from changes to commit
- ``clocks``: what conditions on now() read: advanced by hand, by rows and by ticks
- ``telemetry``: what epochs and views cost: the refresh log, logging, spans
- ``transactions``: changes of several statements that wait for their COMMIT
- ``partitions``: time partitions: lateness, retention, SHOW PARTITIONS
- ``quarantine``: rows that a view cannot compute, held back from it
- ``catalog``: tables, views, sources and functions by name, stored as SQL
- ``results``, ``intake_counts``, ``published_epochs``: values returned to users
- ``html_output``: how notebooks show them
- ``workers``: background threads that retry
- ``following``: a reader that moves to the new epochs of a writer
- ``boundary``, ``arguments``, ``fault_reports``: the public boundary: arguments checked, errors translated, faults
  reported
"""
