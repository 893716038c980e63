"""Sketches of Apache DataSketches as values: what they hold, and their bytes, which Spark reads and writes alike.

- ``murmur``: the hash by which all of them take values
- ``theta``: sets of hashes below a limit, for counts of unions, intersections and differences
- ``tuples``: theta sketches with a number for each hash
- ``frequent_items``: counts of the most frequent values
- ``hyperloglog``: registers for counts of different values, by the library of DataSketches
- ``kll``: samples at several levels, for quantiles and ranks
"""
