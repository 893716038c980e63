"""What users hold, and what happens when they use it: one warehouse, its catalog, and the epochs that keep views fresh.

- ``warehouse``: ``open`` and ``Warehouse``, the public class; thin
- ``handles``: tables, views and snapshots as users hold them
- ``check``, ``repair``: a folder checked against its checksums, and repaired
- ``engine``: ``Engine``, which makes the parts below and gives each the functions it needs
- ``statements``: each SQL statement, done
- ``inspect``: EXPLAIN, verification, audits, lineage, staleness
- ``objects``: objects of ODL classes, kept in tables
- ``definitions``: tables, views, sources and feeds created, replaced and dropped
- ``refresh``: views filled, caught up and scheduled
- ``remote``: views over sources, and folder feeds
- ``maintenance``: compaction, change logs, vacuum
- ``subscriptions``: changes of views handed to subscribers
- ``epochs``: one epoch, from changes to commit
- ``partitions``: time partitions: lateness, retention, SHOW PARTITIONS
- ``catalog``: tables, views, sources and functions by name, stored as SQL
- ``results``, ``intake_counts``: what is returned to users; ``workers``: background threads that retry
- ``boundary``, ``arguments``, ``fault_reports``: the public boundary: arguments checked, errors translated, faults
  reported
"""
