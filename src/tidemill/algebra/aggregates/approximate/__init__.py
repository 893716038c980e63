"""Approximate aggregates, by the algorithms of Spark: the same numbers, not merely numbers within the same error.

None of them has an inverse for a deleted value, so each is computed again from a multiset when its group changes: of
registers, of positions in an order, of values with their counts.

- ``distinct_counts``: APPROX_COUNT_DISTINCT, by HyperLogLog++
- ``bias``: the corrections of HyperLogLog++
- ``quantiles``: APPROX_PERCENTILE, by the summaries of Greenwald and Khanna
- ``sketches``: aggregates that make sketches of values, or combine them
- ``count_min``: COUNT_MIN_SKETCH
- ``java_random``: the numbers that Java draws
- ``histograms``: HISTOGRAM_NUMERIC, by the streaming histograms of Ben-Haim and Tom-Tov
"""
