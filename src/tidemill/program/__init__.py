"""Programs: maps, triggers and statements that maintain a view, for any runtime to run.

- ``maps``: maps from a key to a weight and ring values
- ``statements``: queries as nested loops, the statements that add their results to maps, and triggers
- ``stages``: stages, how their rows are emitted from maps, and the program of a view
- ``joingraph``: join graphs: members, vertices, lookahead (GraphIVM)
- ``joins``: classes of joins, which EXPLAIN shows
- ``constraints``: CHECK conditions and foreign keys as runtimes enforce them
- ``reads``: which relations, indexes and orders a program reads
- ``sharding``: which stages run on parts of a change, and where the sums of these parts must meet
- ``linearity``: tells if a query may read a map as unmerged changes
- ``expiry``: entries that no late row can reach any more
- ``renaming``: programs under other stage names, for shared stages
- ``changed_filters``: two programs that differ in a filter; ``equal_state``: two that keep some of the same maps
- ``computed_columns``: two of which one shows columns that are made of those of the other
- ``text``: the readable form of a program
- ``verification``: the invariants of programs, checked on every compile
- ``compatible_types``: which key types compare and which arguments a ring value sums
"""
