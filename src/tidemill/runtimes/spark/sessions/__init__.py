"""Sessions of Spark, and the processes behind them.

- ``session``: a local session of our own, or a branch of one that a user gave us; the settings that decide answers.
- ``java``: finding a Java that Spark can run on.
- ``python_daemon``: the process that a local Spark forks its Python workers from.
- ``worker_packages``: Tidemill sent to the workers of a cluster, and what they lack.
- ``standalone_cluster``: a cluster of processes on this machine, for the demo, benchmarks and tests.
- ``session_functions``: Python functions that are registered with a session.
- ``job_counters``: jobs, bytes read and bytes written of an epoch.
"""
