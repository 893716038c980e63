"""Spark's declarative pipelines: a project loaded by pyspark's own loader, without a server.

- ``internals``: the parts of pyspark that are not public and that this package rests on, in one place
- ``load``: a project's specification and everything that its files define
- ``recorded_session``: a Spark Connect session that builds plans and has no server
- ``plan_text``: such a plan as SQL, or the reason why it cannot be
- ``plan_expressions``: its expressions
- ``recompute``: datasets that have no such text, computed by Spark
"""
