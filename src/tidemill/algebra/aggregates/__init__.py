"""The aggregates of Spark SQL: types, meaning in Python, partial sums, spelling in Spark.

Add an aggregate by declaring an ``AggregateFunction`` in the module of its theme; ``registry`` collects them.

- ``call``: an aggregate in a query
- ``function``: ``AggregateFunction``, the declaration
- ``parameters``: the kinds of arguments that aggregates declare
- ``partial_sums``: the ring values that an aggregate is computed from
- ``moving``: aggregates of values between two ends that move forward
- ``folds``: aggregates of values that are added one by one and never leave
- ``sums``: COUNT, SUM, AVG, their TRY_ forms, BOOL_AND and BOOL_OR
- ``statistics``: variances, covariances and correlation
- ``regression``: the REGR_ aggregates
- ``moments``: SKEWNESS and KURTOSIS
- ``bits``: BIT_AND, BIT_OR and BIT_XOR
- ``extremes``: MIN, MAX, MIN_BY and MAX_BY
- ``lists``: ARRAY_AGG and STRING_AGG
- ``order_statistics``: MODE and percentiles
- ``variants``: SCHEMA_OF_VARIANT_AGG
- ``bitmaps``: the BITMAP_ aggregates
- ``approximate``: approximate counts, quantiles, histograms
- ``registry``: ``AGGREGATE_FUNCTIONS``, all of them by name, and what follows from a declaration
"""
