"""The commands: each opens a warehouse folder, makes one request and prints the result.

- ``input``: ``sql``, ``shell``, ``load``, ``objects``, ``apply``
- ``following``: ``watch``, ``sync``, ``feed``, ``schedule``, ``clock``
- ``inspection``: ``show``, ``explain``, ``verify``, ``audit``
- ``maintenance``: ``compact``, ``vacuum``, ``check``, ``repair``
- ``builds``: ``builds``, ``builds run``, ``pause``, ``resume``, ``cancel``
- ``copies``: ``backup``, ``restore``, ``clone``
- ``users``: ``user add``, ``list``, ``remove``, ``roles``, ``password``, ``token``
- ``projects``: ``plan``, ``deploy``, ``promote``, ``drop-stage``, ``diff``
- ``pipelines``: ``pipelines run``, ``dry-run``, ``show``
- ``serve``: ``serve``; ``ui``: the console in a browser
- ``bench``: ``bench``
"""
