"""The command line: each command opens a warehouse folder, asks one thing and prints the answer.

- ``app``: the commands, and ``main``
- ``warehouse_options``: options that most commands have, and opening a folder
- ``prompt``: the SQL prompt
- ``data_input``: scripts, files and change records taken in
- ``watch_changes``, ``watch_staleness``: a view, or how far views are behind, followed from another process
- ``keep_in_sync``: sources, feeds and scheduled views kept going
- ``audit``: ``tidemill audit``; ``check_repair``: ``tidemill check`` and ``tidemill repair``
- ``object_classes``: classes of objects declared and listed
- ``bench``: ``tidemill bench``; ``bench_runner``: runs a benchmark of the checkout
"""
