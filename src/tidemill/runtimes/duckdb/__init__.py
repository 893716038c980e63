"""DuckDB as an engine for one-off queries, recomputation, fills of views and sums of bulk changes: in columns.

It works in this process, keeps no state and commits no change, so it is no ``Runtime``: it answers queries over Arrow
tables that the caller has.
A query is translated only if each of its parts is declared here and Spark's answers to the corpus confirm it. All else
raises ``NotAnswered``, and the caller asks a runtime, which also reports errors such as an overflow.

- ``answer``: the rows of a query: its translation, run on a private connection over the given tables.
- ``interrupt``: queries ended by other threads.
- ``fill``: the maps and rows of a stage, from the whole contents of its inputs.
- ``trigger_sums``: what a trigger adds for a part of a change, from the rows that it joins with.
- ``load_queries``, ``emission_queries``: what a stage's load adds to its maps, and its rows over these, as relations.
- ``relations``: relational nodes as SQL text.
- ``windows``: window functions, and the order of rows in a partition.
- ``aggregates``: the aggregates that have a translation.
- ``expressions``: scalar expressions, subqueries included.
- ``functions``: the functions and operators that have a translation.
- ``text_functions``, ``time_functions``: those of texts, and those of dates and timestamps.
- ``casts``: the conversions that have a translation.
- ``decimals``: arithmetic on DECIMAL with Spark's types and rounding.
- ``arrow_relation``: rows as a relation of a user's connection.
- ``sql_text``: types, literals and checked expressions as SQL text.
"""
