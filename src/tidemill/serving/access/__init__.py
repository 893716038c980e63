"""Users of a server and their rights, for all of its doors.

- ``users``: the file of users, with hashed secrets; ``principal``: a user who has proven to be one
- ``user_file``: the file read and written; ``hashed_secrets``: passwords and tokens as they are kept
- ``logins``: who has logged in with a browser
- ``binding``: where a server may listen without users; ``tls``: its certificate
- ``limits``: how often and how much a user or address may ask; ``failed_logins``: passwords that are guessed
- ``audit_log``: the statements that were run, without values
"""
