"""Views compiled over the catalog as it is.

- ``define_view``: compiles a query into a ``View``
- ``unique_keys``: columns that identify the rows of a view; ``view_instances``: views whose rows have identities
- ``replaced_view``: a view with another query, and what follows for the views that read it
- ``recompiled_view``: a view over other definitions, by the text that it has
- ``staged_view``: a view of a stage that takes the place of another
"""
