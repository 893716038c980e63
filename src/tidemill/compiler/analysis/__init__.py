"""Facts about relations and expressions that all later packages ask for. Nothing here is a pass.

- ``blocks``: select-project-join trees flattened to query blocks
- ``canonical``: equal relations under different names have one canonical form
- ``common_subqueries``: grouped subqueries that occur more than once
- ``post_aggregation``: filters and projections above a grouping
- ``failures``: which expressions can raise an error, and which casts are exact
- ``validity``: the instants at which a condition on the clock is true for a row
- ``filters``: filters around relations, where there may be no condition
- ``fold_constants``: expressions that known columns decide
- ``key_bounds``: keys that bound the rows which a query reads
- ``foreign_keys``: foreign keys by which new rows of a parent join with nothing
- ``join_classes``: which joins are q-hierarchical, free-connex, acyclic or cyclic
- ``null_rejection``: expressions that are NULL where a subquery has no row
- ``array_columns``: columns computed from array elements, which no index finds
- ``ring``: types whose sums are exact, and ring products and sums as expressions
- ``rename``: relations under other column names, and unused names
"""
