"""Commands that show what a warehouse costs, and how a machine is set up for it.

- ``cost_commands``: ``refreshes``, ``costs``, ``top``
- ``watch_costs``: what views cost, followed from another process
- ``doctor``: ``doctor``: what this machine, an installation and a folder have, and lack
- ``log_output``: ``--log-level`` and ``--log-json``
"""
