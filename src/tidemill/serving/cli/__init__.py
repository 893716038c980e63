"""The command line: each command opens a warehouse folder, asks one thing and prints the answer.

- ``app``: the list of commands, and ``main``
- ``input_commands``: ``sql``, ``load``, ``objects``, ``apply``
- ``following_commands``: ``watch``, ``sync``, ``feed``, ``schedule``
- ``inspection_commands``: ``show``, ``explain``, ``verify``, ``audit``
- ``maintenance_commands``: ``compact``, ``vacuum``, ``check``, ``repair``
- ``warehouse_options``: options that most commands have, and opening a folder
- ``prompt``: the SQL prompt
- ``data_input``: scripts, files and change records taken in
- ``watch_changes``, ``watch_staleness``: a view, or how far views are behind, followed from another process
- ``keep_in_sync``: sources, feeds and scheduled views kept going
- ``audit``: histories held against the levels of consistency, and views against their sources
- ``object_classes``: classes of objects declared and listed
- ``bench``: ``tidemill bench``; ``bench_runner``: runs a benchmark of the checkout
"""
