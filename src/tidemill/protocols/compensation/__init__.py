"""Compensation: correcting answers for updates that they have seen too early.

- ``late_answers``: a query about one state that is answered in a later one, and its correction.
- ``pack_terms``: an equivalent query with fewer terms.
- ``relevance``: updates and terms that are empty in every state.
- ``view_keys``: rows of a view indexed by the keys of the relations that they derive from.
"""
