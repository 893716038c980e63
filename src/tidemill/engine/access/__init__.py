"""Rights of sessions to read and change relations, and rows as a session may see them.

- ``rights``: the rights of a session, by its roles and what was granted
- ``row_conditions``: the rows for which the condition of a grant is true
- ``allowed_reads``: reads of a session, from which nothing comes that it may not see
- ``allowed_changes``: changes of a session, and errors that name nothing hidden
"""
