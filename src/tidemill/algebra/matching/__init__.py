"""Row pattern matching over the rows of an ordered partition.

- ``automaton``: the finite automaton of a pattern (ViewDF, algorithm 1)
- ``deterministic``: the deterministic automaton of patterns whose conditions read one row
- ``navigation``: FIRST, LAST, aggregates and CLASSIFIER over the rows matched so far
- ``partial_matches``: rows taken for pattern variables so far, and the next row tried
- ``resets``: rows that no variable can take, at which a search begins afresh
- ``text``: the automaton in words
- ``search``: the search for matches, which can be resumed at any row
"""
