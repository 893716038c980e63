"""Protocols: how views over autonomous sources are maintained. Pure: messages in, messages out.

- ``protocol``: what an algorithm is, the messages, and the levels of consistency of the ECA paper.
- ``choose_protocol``: the cheapest algorithm that keeps the wanted consistency.
- ``algorithms``: one module for each: ECA and its variants, LCA, SWEEP, stored copies, recomputation.
- ``compensation``: what the algorithms share: late answers, packing of terms, relevance, keys.
- ``batched_source``: a source as if it stood still while it is asked, and moved in batches.
- ``remote_subplans``: the selections and joins of a view that lie in sources.
- ``audit``: which level of consistency a history keeps.
"""
