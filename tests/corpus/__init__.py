"""Spark SQL with the answers that Spark gave, kept as text. What Tidemill answers must be the same, or a refusal.

A line that is not indented is a case: a query, an expression (which is asked over the rows of ``t``), or an expression
with holes ``{}``, which is asked once for each of ``FILLERS``. The indented lines below it are Spark's answer:

    nullif(i, 5)
        INT: -3 | NULL
    i / 0
        ! DIVIDE_BY_ZERO
    SELECT b, count(*) FROM t GROUP BY b
        BOOLEAN, BIGINT
        NULL, 1
        false, 1
        true, 1
    upper({})
        s: STRING: 'ABC' | 'TIDE MILL' | NULL
        ! DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE: a sa st

``gaps.txt`` lists the cases in which we are known to differ. ``python -m tests.corpus.answer`` asks Spark again and
writes the answers, ``--new`` those that are missing. ``tests/test_corpus.py`` holds us to them.
"""
