"""PostgreSQL as a source: changes by logical decoding or from an outbox, answers from the same snapshot.

- ``source``: the source itself; a poll is one REPEATABLE READ transaction.
- ``connection``: addresses, passwords, and reconnecting.
- ``catalog``: the tables of a schema, and the conversion of its values.
- ``snapshot_position``: positions: the transactions that a state contains.
- ``change_capture``: the common part of both ways of capturing changes: whole transactions.
- ``replication_slot``: changes by logical decoding; ``pgoutput``: its messages.
- ``publication``: which rows and columns the log tells of; ``log_structure``: definitions on which its meaning depends.
- ``outbox``: changes from a table that triggers fill.
"""
