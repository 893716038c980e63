"""DDL: tables, views, sources and feeds created, altered, replaced and dropped; each commits the catalog.

- ``tables_and_views``: tables and views; shared stages of a dropped view are transferred
- ``definition_changes``: all changes of what is defined; ``alterations``: of tables; ``renaming``: of names;
  ``option_changes``: of options of views
- ``altering``: what alterations have in common; ``existing_rows``: rows compared with a constraint
- ``same_programs``: programs that are the same but for names
- ``replacing``: views that get another query, built beside the old ones
- ``sources_and_feeds``: sources and feeds
- ``planning``: views planned by what is stored, and anew when their tables have grown
- ``stored_statistics``: rows, changes and columns of what is stored, and ANALYZE; ``count_values``: one column
"""
