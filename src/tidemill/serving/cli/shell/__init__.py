"""The SQL shell: statements over several lines, history, highlighting, completion, and commands with a backslash.

- ``open_shell``: a session over a warehouse
- ``session``: reads statements and runs each at its semicolon; an error or Ctrl-C ends a statement, not the session
- ``backslash_commands``: ``\\\\d``, ``\\\\timing`` and the others
- ``line_editor``: the editor of a terminal, by prompt_toolkit, or plain lines without it
- ``words``: keywords, and the names of the warehouse, that the editor completes
- ``statement_end``: where a statement ends
"""
