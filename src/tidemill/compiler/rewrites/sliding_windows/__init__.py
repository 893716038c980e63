"""Sliding windows over time partitions: one meaning, several methods (ViewDF).

- ``rewrite``: ``rewrite_sliding_windows``, the pass
- ``find_window``: a body that groups the last n partitions, recognized
- ``partials``: partial aggregates of one partition, and how they merge
- ``methods``: direct, panes, prefix, subtract, intervals, rolling
- ``window_sizes``: rows and groups of a slide, from statistics
- ``choose_method``: the method whose slides are predicted to take least
"""
