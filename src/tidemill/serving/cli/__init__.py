"""The command line.

- ``entry``: where the command begins; ``app``: the list of commands, and how they end
- ``commands``: what they do
- ``observing``: ``refreshes``, ``costs``, ``top``, ``doctor``, and log records
- ``warehouse_options``: common options, and opening a folder
- ``shell``: the SQL shell
- ``terminal``: Ctrl-C, progress and completion
- ``run_script``: scripts of statements, each reported
- ``data_input``: input of files and change records
- ``watch_changes``, ``watch_staleness``: a view, or the staleness of all, followed from another process
- ``keep_in_sync``: following sources, feeds and the schedule
- ``audit``: histories checked against the levels of consistency, and views against their sources
- ``object_classes``: classes of objects declared and listed
- ``served``: the server of ``serve``; ``console_link``: the address of the console
- ``bench_runner``: runs a benchmark of the checkout
"""
