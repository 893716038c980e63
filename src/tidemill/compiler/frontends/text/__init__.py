"""Reading text, for all languages alike.

- ``source``: ``SourceText``, a text with the name by which errors call it, and the place of any stretch of it
- ``cursor``: tokens, and a cursor that reads them one by one: accept, expect, end
- ``names``: checks of identifiers, reserved column names, unused names, and the error for an unknown name
- ``depth``: how deeply a text may be nested, and the recursion limit that this takes
"""
