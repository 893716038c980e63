"""Views that get another query: what is computed while others write, and the swap.

- ``replacement``: views with another query, built beside the old ones
- ``preparation``: what is computed for that while others write; ``prepared``, ``prepared_columns``, ``prepared_views``:
  its kinds
- ``pinned_view``: a view and its readers as of a pinned epoch, which then follow; ``pinned_contents``: what they hold;
  ``pinned_recomputation``: readers that are computed again
- ``rows_between_filters``: the rows that pass one of two filters alone
"""
