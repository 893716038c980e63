"""Questions about a view: how it is kept, whether it is right, where a row comes from, how far it is behind.

- ``explain``: EXPLAIN: strategy, runtime, program, costs
- ``source_explain``: what a view over sources asks of them
- ``partition_facts``: how a view is partitioned by time, and what it retains
- ``strategy_comparison``: viewlets against a join graph, by stored sizes
- ``verify``: a view beside its recomputation by Spark or the evaluator; ``differences``: two multisets compared
- ``audit``: a view over sources beside the answers of these
- ``lineage``: the base rows of a row
- ``staleness``: epochs, partitions and seconds that a view is behind
"""
