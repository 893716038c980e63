"""Projects: a folder of SQL files that says what a warehouse has.

- ``project``: the definitions of a folder, each after those that it uses
- ``compare``: a definition of a project beside that of a warehouse; ``steps``: what is to be done
- ``plan``: all steps, tried one after the other
- ``carry_out``: the plan, carried out in one commit
- ``stages``: a version of views that lives beside the present one
- ``deploy``: ``tidemill.plan`` and ``tidemill.deploy``, for real or on a clone
- ``row_diff``: ``tidemill.diff``, the rows in which two versions differ
"""
