"""Inspection of a view: explanation, verification, lineage of rows, staleness.

- ``explain``: EXPLAIN: strategy, runtime, program, costs; ``explained_parts``: the same for programs
- ``program_graph``, ``graph_picture``: the program of a view as a graph, and as SVG for notebooks
- ``pattern_facts``, ``automaton_picture``: the automata of the patterns of a view, in words and as SVG
- ``source_explain``: the queries that a view over sources sends to them
- ``clock_facts``: the clocks of views, and at which instants rows come and go
- ``partition_facts``: how a view is partitioned by time, and what it retains
- ``strategy_comparison``: the predicted costs of strategies, by stored sizes
- ``verify``: a view compared with its recomputation by Spark or the evaluator; ``differences``: two multisets compared
- ``audit``: a view over sources compared with the answers of these
- ``information_schema``: the catalog as rows, which one-off queries read
- ``lineage``: the base rows of a row
- ``map_statistics``: entries, bytes and lookups of the maps of a view
- ``relation_statistics``: rows, changes, rates, reads and analyzed columns of tables and views
- ``costs``: the refresh log, and the costs of views; ``state_sizes``: what views keep in memory and on disk
- ``forecast``: what the next minute will cost
- ``status``: tables, views and what they do, without the lock of the warehouse
- ``staleness``: epochs, partitions and seconds by which a view is behind
"""
