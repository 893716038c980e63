"""The join graph of GraphIVM in its generic form: vertex values, join tuples, projected tuples and paths as Python
objects.

The modules are those of GraphIVM, one file each:

- ``structure``: the graph itself and its three indexes.
- ``diff_filter``: the base diff filter: what a change does to each join tuple of a member (algorithm 1).
- ``maintenance``: diffs become modifications of the graph (algorithms 2 to 4).
- ``lookahead``: join tuples that are known to lead nowhere are not followed.
- ``routes``: the order in which a walk reaches the members.
- ``walk``: breadth-first search for complete paths.
- ``view_diffs``: the change of the view that modifications cause (algorithm 5).
- ``materialize``: all rows of the view from the graph alone (algorithm 6).
- ``stage_graphs``: the join graphs of a stage, and how a change goes through them.
"""
