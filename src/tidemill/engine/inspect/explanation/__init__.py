"""EXPLAIN VIEW.

- ``explain``: strategy, runtime, program, costs; ``explained_parts``: the same for programs
- ``program_graph``, ``graph_picture``: the program of a view as a graph, and as SVG for notebooks
- ``pattern_facts``, ``automaton_picture``: the automata of the patterns of a view, in words and as SVG
- ``source_explain``: the queries that a view over sources sends to them
- ``clock_facts``: the clocks of views, and at which instants rows come and go
- ``partition_facts``: how a view is partitioned by time, and what it retains
- ``strategy_comparison``: the predicted costs of strategies, by stored sizes
"""
