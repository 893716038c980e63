"""PostgreSQL as a source: changes by logical decoding or from an outbox, answers from the same snapshot.

- ``source``: the source itself; a poll is one REPEATABLE READ transaction.
- ``connection``: addresses, passwords, and connections that are made again.
- ``catalog``: the tables of a schema, and how its values become ours.
- ``snapshot_position``: positions: the transactions that a state contains.
- ``change_capture``: what both ways of capturing changes have in common: whole transactions.
- ``replication_slot``: changes by logical decoding; ``pgoutput``: its messages.
- ``outbox``: changes from a table that triggers fill.
"""
