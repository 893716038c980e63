"""Transactions over several statements: their changes wait, and are committed as one epoch.

- ``pending``: the changes of a transaction that is open, what it has read, and what others have committed meanwhile
- ``own_changes``: what a transaction reads: stored rows with its own changes, and views computed over these
"""
