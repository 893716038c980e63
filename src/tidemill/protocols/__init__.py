"""Protocols: algorithms that maintain views over autonomous sources. Pure functions of messages, without I/O.

- ``protocol``: the interface of an algorithm, its messages, and the levels of consistency of the ECA paper.
- ``choose_protocol``: the cheapest algorithm that guarantees the requested level of consistency.
- ``algorithms``: one module for each: ECA and its variants, LCA, SWEEP, stored copies, recomputation.
- ``compensation``: code that the algorithms share: late answers, packing of terms, relevance, keys.
- ``batched_source``: a source that appears to stand still while it is queried, and to change in batches.
- ``remote_subplans``: the parts of a view that sources are asked for.
- ``group_subplans``, ``semi_joins``: groups as partial sums, and EXISTS and IN as joins, of which such parts are made.
- ``audit``: the level of consistency that a history satisfies.
"""
