"""SQL scalars as LLVM code.

- ``expressions``: scalars over the columns of a row; what may fail is computed only where SQL computes it.
- ``arithmetic``: operators of SQL and of rings.
- ``comparisons``: comparisons of values that are not NULL.
- ``conversions``: casts, literals, and values of one type as keys of another.
- ``texts``: functions that look at the characters of texts.
- ``python_calls``: expressions that Python computes, and the results that are remembered.
- ``dates``: parts of dates and timestamps, and calendar arithmetic.
- ``time_windows``: the windows of time that an instant is in, as numbers.
- ``exact_numbers``: INT, BIGINT, DATE, TIMESTAMP and DECIMAL as integers, and whether a result fits its type.
- ``wide_integers``: integer arithmetic that cannot overflow.
- ``double_sums``: sums of DOUBLE as double-doubles, in registers.
"""
