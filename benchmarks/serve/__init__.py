"""The server under load: posts, live changes, and what is left after a kill.

- ``run``: the cases and their figures
- ``served``: a server in a process of its own
- ``posts``: clients that post rows over connections that they keep
- ``pgwire``: reads by key over PostgreSQL's protocol
- ``subscribers``: many readers of live changes
"""

from benchmarks.serve.run import run

__all__ = ["run"]
