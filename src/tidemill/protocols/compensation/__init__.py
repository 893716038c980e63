"""Compensation: making up for updates that a late answer has seen too early.

- ``late_answers``: a query about one state that is answered in a later one, and its correction.
- ``pack_terms``: fewer terms that say the same.
- ``relevance``: updates and terms that cannot matter in any state.
- ``view_keys``: rows of a view found by the keys of the relations that they were made of.
"""
