"""The viewlet transform of DBToaster: deltas of deltas are materialized until a trigger is a sum of lookups.

- ``ring_calculus``: queries as grouping sums over products, and their translation from blocks
- ``transform``: the transform: from the queries of a stage to maps and triggers
- ``delta_queries``: the delta of a query of the calculus
- ``domains``: what of a query a changed row can affect
- ``materialize``: which maps a delta is computed from
- ``materialization_costs``: the cost model of that decision
- ``depths``: how many levels of deltas are materialized (0, 1, naive, full)
- ``auxiliary_views``: the materialized views of a stage, each kept once
- ``plans``: statements before their steps are ordered
- ``plan_builder``: a product of the calculus as a plan
- ``range_sums``: sums over a key range instead of loops
- ``merge_plans``: plans with equal loops merged into one
- ``emit``: plans to statements
- ``aliases``: short aliases in the statements
- ``load``: maps filled from whole relations
"""
