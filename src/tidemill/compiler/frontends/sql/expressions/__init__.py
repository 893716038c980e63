"""From expressions of a parse tree to scalars, every implicit conversion a ``Cast``.

- ``translator``: ``ExpressionTranslator``, over the columns of a scope and by given rules; columns, members, constants
- ``stars``: ``*`` in a list, ``t.*``, ``struct.*``, and EXCEPT
- ``operators``: arithmetic, comparison, logic, LIKE, CASE
- ``function_calls``: functions by name, casts, and aggregates on their way to the grouping
- ``clock_functions``: NOW() and its kin in statements that are run once
- ``array_functions``: SEQUENCE and ARRAYS_ZIP, typed by more than their arguments' types
- ``document_functions``: functions of JSON, CSV and variants, whose schemas and options are constants
- ``higher_order_functions``: functions that take a lambda
- ``generators``: EXPLODE, POSEXPLODE, INLINE, STACK, JSON_TUPLE and VARIANT_EXPLODE
- ``literals``: constants as Spark types them
- ``intervals``: INTERVAL, and lengths of time as SQL spells them
- ``subquery_predicates``: EXISTS, IN (query), comparisons with ANY and ALL
- ``single_row``: queries with at most one row, which can be used as values
"""
