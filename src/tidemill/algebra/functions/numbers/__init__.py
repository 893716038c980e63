"""Functions of numbers.

- ``arithmetic``: operators on numbers, and their TRY_ forms
- ``bits``: operators and functions on the bits of integers
- ``bitmaps``: buckets of bits, and how many are set
- ``mathematics``: rounding, roots, powers, logarithms, angles
- ``numerals``: numbers in other bases
- ``number_formats``: numbers read and written by a format
- ``number_text``: numbers with commas between thousands
- ``ring_arithmetic``: exact products and sums that triggers compute with
- ``integer_bounds``: integers that bound comparisons with a DOUBLE
- ``variance``: the last step of variance, covariance and correlation
"""
