"""From text to algebra. Every language ends in the same relational algebra with nested types.

- ``translate_merge``: MERGE, as queries for its clauses; ``translate_conflict``: ON CONFLICT DO UPDATE
- ``translate``: ``parse`` a script, ``translate`` a query, and INSERT, UPDATE and DELETE: the entry points of the
  engine
- ``pipelines``: SQL files of declarative pipelines
- ``refuse_compared_maps``: of a query, what would compare maps
- ``script``: the statements of a script, of whichever language, as plain data
- ``viewdf``: views that are defined by partitions, and PARTITION BY
- ``oql``: queries over objects, through the monoid calculus
- ``odl``: class declarations
- ``sql``: Spark SQL queries and expressions
- ``text``: for all languages: a text with places for errors, a cursor over tokens, names, the limit on nesting

Imports go down this list only.
"""
