"""MariaDB and MySQL as sources: the binary log tells what changed, and says which place of it a snapshot shows.

- ``connection``: address, password, settings of a session, and the connection that is opened again.
- ``catalog``: tables and columns of a database, and their values from text.
- ``log_values``: values as the log has them.
- ``log_texts``: texts in all character sets.
- ``logged_rows``: rows of a table from events of the log.
- ``log_statements``: what statements that the log has as text may have changed.
- ``log_transaction``: a transaction while it is read.
- ``binary_log``: committed transactions from the log, in the order of their commits.
- ``position``: places in the log.
- ``source``: the source itself.
"""
