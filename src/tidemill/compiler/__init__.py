"""From a query to a program: front ends, rewrites, stages, and a strategy for each stage.

- ``passes``: ``PASSES``, the compiler as a list of functions; ``compile_view`` runs them
- ``frontends``: SQL, ViewDF, ODL and OQL text to algebra
- ``analysis``: facts about relations: blocks, canonical forms, which expressions can fail
- ``rewrites``: algebra to algebra
- ``staging``: a view cut into stages
- ``delta``: derivatives, and nested loops that compute them
- ``viewlets``: the DBToaster transform: materialized deltas of deltas
- ``strategies``: how a stage is maintained, one file each
- ``choose_plan``: what ``auto`` takes for each stage, by predicted cost; ``plan``: what it has taken
- ``choose``: the strategy of a stage and the runtime of an epoch, and the reason
- ``choose_recomputation``: whether one large change is maintained by triggers, or the view computed again
- ``statistics``: sizes, costs and predictions
- ``lineage``: MOVIE: provenance of rows, and which events need no base data
- ``compare_strategies``: predicted costs of the strategies of a view, for EXPLAIN
- ``explain``: the text of EXPLAIN VIEW
"""
