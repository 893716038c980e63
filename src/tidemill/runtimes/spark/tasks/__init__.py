"""Stages in Spark tasks: triggers on parts of a change, over the files of the store.

- ``work``: what the tasks of a job are given, and the compiled stages of a worker.
- ``run_files``: the files of the store as tasks read them.
- ``checked_parts``: parts of a change compared with the stored rows, and written to files.
- ``column_sums``: triggers as queries over columns, and the rows that they look up.
- ``partial_sums``: the sums of a part, divided into shards, and added up again.
- ``run``: the two sides of a job: triggers on a part of the change, and the rows of a shard.

No task keeps state, and none commits: each is a function of files and changes, and may run twice.
"""
