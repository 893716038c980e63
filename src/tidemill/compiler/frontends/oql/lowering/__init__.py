"""From the monoid algebra to relations.

- ``lower``: get is a scan, unnest an Unnest, and an object is found by its oid
- ``nest``: nests as groups
- ``lower_terms``: terms as scalars, with the objects that paths lead to
- ``identity``: identities of the rows of a view
- ``bindings``: the columns that a variable is bound to
- ``monoid_aggregates``: monoids as aggregates
"""
