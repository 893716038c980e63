"""The command line: each command opens a warehouse folder, makes one request and prints the result.

- ``entry``: where the command begins; ``app``: the list of commands, and how they end
- ``input_commands``: ``sql``, ``shell``, ``load``, ``objects``, ``apply``
- ``following_commands``: ``watch``, ``sync``, ``feed``, ``schedule``, ``clock``
- ``inspection_commands``: ``show``, ``explain``, ``verify``, ``audit``
- ``observing``: ``refreshes``, ``costs``, ``top``, ``doctor``, and log records
- ``maintenance_commands``: ``compact``, ``vacuum``, ``check``, ``repair``
- ``build_commands``: ``builds``, ``builds run``, ``pause``, ``resume``, ``cancel``
- ``copy_commands``: ``backup``, ``restore``, ``clone``
- ``user_commands``: ``user add``, ``list``, ``remove``, ``roles``, ``password``, ``token``
- ``project_commands``: ``plan``, ``deploy``, ``promote``, ``drop-stage``, ``diff``
- ``serve_command``: ``serve``; ``served``: its server
- ``ui_command``: ``ui``, the console in a browser; ``console_link``: its address
- ``pipeline_commands``: ``pipelines run``, ``dry-run``, ``show``
- ``warehouse_options``: common options, and opening a folder
- ``shell``: the SQL shell
- ``terminal``: Ctrl-C, progress and completion
- ``run_script``: scripts of statements, each reported
- ``data_input``: input of files and change records
- ``watch_changes``, ``watch_staleness``: a view, or the staleness of all, followed from another process
- ``keep_in_sync``: following sources, feeds and the schedule
- ``audit``: histories checked against the levels of consistency, and views against their sources
- ``object_classes``: classes of objects declared and listed
- ``bench``: ``tidemill bench``; ``bench_runner``: runs a benchmark of the checkout
"""
