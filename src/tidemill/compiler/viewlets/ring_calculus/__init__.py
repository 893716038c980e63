"""The ring calculus of DBToaster: queries are grouping sums over products of atoms.

- ``queries``: atoms, lifts (nested aggregates) and queries
- ``polynomials``: sums of products, the amounts that statements add
- ``translate``: query blocks of a stage to queries of the calculus
- ``bindings``: binding patterns: input and output variables, connected parts
- ``conditions``: conditions on nested aggregates, simplified
- ``ranges``: comparisons as key ranges and as turning points of running sums
- ``running_sums``: conditions on running sums in the form that has one turning point
"""
