"""PostgreSQL's wire protocol: a door for psql, drivers and tools.

- ``server``: listens; ``clients``: who is there, and who has to go; ``limits``: how much and how long
- ``connection``: one client: messages in order, answers in order
- ``audit``: statements and logins in the audit log
- ``codec``, ``messages``: frames, and what they carry
- ``protocol``: startup, the simple and the extended protocol, COPY, results on the wire
- ``scan``: statements of a text, their words and parameters
- ``statements``: what each kind of statement does
- ``dialect``: statements in PostgreSQL's dialect
- ``catalog``: ``pg_catalog`` and ``information_schema``, as tools ask for them
- ``session``, ``settings``: transaction, cursors, parameters of a connection
- ``outcome``: what a statement gives
- ``types``: values in text and binary
- ``errors``: SQLSTATEs
"""
