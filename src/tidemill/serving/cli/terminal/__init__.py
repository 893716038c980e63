"""The terminal that the command line runs in: Ctrl-C, progress, and completion by the user's shell.

- ``interrupts``: Ctrl-C answered within a second, with what was committed and what was not
- ``progress``: bars and counts of rows on standard error, on a terminal only
- ``completion``: scripts for bash, zsh and fish, and the names of tables and views that they complete
- ``suggestions``: errors of usage, with the nearest command or option
"""
