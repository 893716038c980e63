"""MariaDB and MySQL as sources: the binary log tells what changed, and says which place of it a snapshot shows.

- ``connection``: address, password, settings of a session, and the connection that is opened again.
- ``catalog``: tables and columns of a database, and their values from text.
- ``log_values``: values as the reader of the log gives them.
- ``binary_log``: committed transactions from the log, in the order of their commits.
- ``position``: places in the log.
- ``source``: the source itself.
"""
