"""Stages in Spark tasks: the native program on parts of a change, over the files of the store.

- ``work``: what the tasks of a job are given, the files that they read, and the compiled stages of a worker.
- ``partial_sums``: the sums of a part, divided into shards, and added up again.
- ``run``: the two sides of a job: triggers on a part of the change, and the rows of a shard.

No task keeps state, and none commits: each is a function of files and changes, and may run twice.
"""
