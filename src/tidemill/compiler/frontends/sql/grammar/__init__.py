"""From SQL text to sqlglot's parse tree, with a place for each node.

- ``sql_text``: ``SqlText``, a text with its tokens: parse it, and point at nodes
- ``statement_cursor``: the tokens of one statement, word by word, for what sqlglot does not know
- ``dialect``: Spark's dialect with function calls left as written
- ``operator_grammar``: the precedence of Spark's operators
- ``interval_grammar``: INTERVAL literals
- ``pattern_grammar``: PATTERN (...) and MATCH_RECOGNIZE (...)
- ``pivot_grammar``: PIVOT (...) and UNPIVOT (...)
- ``pipe_grammar``: queries with ``|>``
- ``sample_grammar``: TABLESAMPLE
- ``table_grammar``: MAX RECURSION LEVEL, and MATCH_CONDITION of ASOF JOIN
- ``window_function_grammar``: TUMBLE, HOP, CUMULATE and SESSION as items of FROM
- ``supported_syntax``: for each class of node the arguments that its translator reads
- ``markers``: parameters, ``:name`` and ``?``
- ``named_arguments``: ``f(x => 1)``
- ``nesting``: how deeply tokens and trees are nested
- ``translation_marks``: nodes are marked once they are translated
- ``untranslated``: nodes and clauses without a mark are refused
- ``refusals``: constructs that cannot be maintained yet, with reason and hint
"""
