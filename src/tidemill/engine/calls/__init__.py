"""Calls of sessions: the session that a thread works for, and how its call is ended from another thread.

- ``session_state``: what belongs to one session: its user, temporary definitions, variables
- ``running_call``: one call that runs, which may be cancelled until it commits
- ``running_calls``: the calls that run, by thread; a thread without one works for the default session
- ``interrupt``: an exception raised in another thread
- ``in_session``: public classes whose methods run in the session that they came from
"""
