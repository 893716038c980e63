"""Projects: a folder of SQL files that says what a warehouse has.

- ``project``: the definitions of a folder, each after those that it uses
- ``plan``: what a warehouse lacks, has in another form, or has beside the project
- ``deploy``: ``tidemill.plan`` and ``tidemill.deploy``, for real or on a clone
- ``row_diff``: ``tidemill.diff``, the rows in which two versions differ
"""
