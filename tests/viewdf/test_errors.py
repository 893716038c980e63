"""What is wrong with a definition by partitions is found before anything runs, and pointed at."""

from __future__ import annotations

import pytest

from tests.viewdf.world import translated
from tidemill.compiler.frontends.translate import parse
from tidemill.model.errors import ParseError, SqlError, TextLocation, TypeMismatch, UnknownName, Unsupported

REFUSED: list[tuple[str, type[SqlError], str, str]] = [
    ("UPDATE v[i] AS SELECT n FROM s[i+1]", Unsupported, "s[i+1]", "at later partitions"),
    (
        "UPDATE v[i] AS SELECT n FROM s[5*i..5*i+5] PARTITION BY 5 MINUTES",
        Unsupported,
        "s[5*i..5*i+5]",
        "at later partitions",
    ),
    ("INITIALIZE v[k] AS SELECT n FROM s[k] UPDATE v[i] AS SELECT n FROM v[i]", Unsupported, "v[i]", "earlier ones"),
    ("INITIALIZE v[k] AS SELECT n FROM s[k] UPDATE v[i] AS SELECT n FROM v[..i]", Unsupported, "v[..i]", "earlier"),
    ("INITIALIZE v[k] AS SELECT n FROM s[k] UPDATE v[i] AS SELECT n FROM v", Unsupported, "v", "not all"),
    ("INITIALIZE v[k] AS SELECT n FROM v[k-1] UPDATE v[i] AS SELECT n FROM s[i]", Unsupported, "v[k-1]", "the first"),
    ("UPDATE v[i] AS SELECT n FROM v[i-1], s[i]", Unsupported, "v[i-1]", "the first partition"),
    ("UPDATE v[i] AS SELECT n FROM s[j]", UnknownName, "s[j]", 'counts from "i"'),
    ("UPDATE v[i] AS SELECT n FROM s[i*i]", Unsupported, "s[i*i]", "times or divided by a number"),
    ("UPDATE v[i] AS SELECT n FROM s[(i+1)/5]", Unsupported, "s[(i+1)/5]", "times or divided by a number"),
    ("UPDATE v[i] AS SELECT n FROM s[28401]", Unsupported, "s[28401]", "times or divided by a number"),
    ("UPDATE v[i] AS SELECT n FROM s[-i]", Unsupported, "s[-i]", "times or divided by a number"),
    ("UPDATE v[i] AS SELECT n FROM s[i-1 ..]", ParseError, "s[i-1 ..]", "up to which partition"),
    ("UPDATE v[i] AS SELECT n FROM s[i .. i-1]", ParseError, "s[i .. i-1]", "ends before it begins"),
    ("UPDATE v[i] AS SELECT name FROM plain[i]", Unsupported, "plain[i]", "is not partitioned"),
    ("UPDATE v[i] AS SELECT n FROM t[i]", UnknownName, "t[i]", 'no table or view "t"'),
    ("UPDATE v[i] AS SELECT m FROM s[i]", UnknownName, "m", 'no column "m"'),
    ("UPDATE v[i] AS SELECT n FROM s[i] PARTITION BY 5 MINUTES", Unsupported, "s[i]", "subscript does not advance"),
    ("UPDATE v[i] AS SELECT s.n FROM s[i], hours[i/60]", ParseError, "v", "is not clear"),
    ("UPDATE v[i] AS SELECT name FROM plain", Unsupported, "v", "reads is partitioned"),
    ("UPDATE v[i] AS SELECT n AS ts FROM s[i]", TypeMismatch, "v", 'column "ts" is the time of a row'),
    ("INITIALIZE v[k] AS SELECT n FROM s[k]", ParseError, "]", "UPDATE v[i] AS was expected"),
    ("INITIALIZE w[k] AS SELECT n FROM s[k] UPDATE v[i] AS SELECT n FROM s[i]", ParseError, "w", "not those of"),
    ("UPDATE v[i] AS SELECT n FROM s[i] PARTITION BY 1 MONTH", Unsupported, "s[i]", "which partitions a month has"),
    ("UPDATE v[i] AS SELECT n FROM s[i] PARTITION BY 0 SECONDS", ParseError, "0", "a duration is positive"),
    ("UPDATE v[i] AS SELECT n FROM s[i] PARTITION BY 1 MINUTE 2", ParseError, "2", "should end before this"),
    ("UPDATE v[i] AS", ParseError, "AS", "a query was expected"),
    ("UPDATE v[i] AS SELECT n FROM", ParseError, "FROM", "cannot be read as SQL"),
    (
        "INITIALIZE v[k] AS SELECT n FROM s[k] UPDATE v[i] AS SELECT k, n FROM s[i]",
        TypeMismatch,
        "v",
        "INITIALIZE has 1 columns, and UPDATE 2",
    ),
    (
        "UPDATE v[i] AS SELECT n FROM s PARTITION BY 90 SECONDS",
        Unsupported,
        "v",
        '"s" cannot be read without a subscript',
    ),
    ("SELECT n FROM s [WINDOW 90 SECONDS]", Unsupported, "s [WINDOW 90 SECONDS]", "not made of whole partitions"),
    ("SELECT name FROM plain [WINDOW 2 MINUTES]", Unsupported, "plain [WINDOW 2 MINUTES]", "is not partitioned"),
    ("SELECT n FROM s [WINDOW 0 MINUTES]", ParseError, "0", "a duration is positive"),
    ("SELECT n FROM s [WINDOW 2 MINUTES BACK]", ParseError, "BACK", "should end before this"),
]


@pytest.mark.parametrize(("definition", "kind", "pointed", "what"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused(definition: str, kind: type[SqlError], pointed: str, what: str) -> None:
    with pytest.raises(kind) as caught:
        translated(definition)
    assert type(caught.value) is kind
    assert what in caught.value.what
    place = caught.value.where
    assert isinstance(place, TextLocation)
    assert place.text[place.column - 1 : place.column - 1 + place.length] == pointed


@pytest.mark.parametrize(
    ("clause", "kind", "what"),
    [
        ("PARTITION BY ts EVERY 1 MINUTE", UnknownName, 'there is no column "ts"'),
        ("PARTITION BY k EVERY 1 MINUTE", TypeMismatch, 'cannot be partitioned by "k", which is STRING'),
        ("PARTITION BY at", ParseError, "EVERY was expected"),
        ("PARTITION BY at EVERY MINUTE", ParseError, "a unit of time, such as MINUTE was expected"),
        ("PARTITION BY at EVERY 1 FORTNIGHT", ParseError, "1 FORTNIGHT"),
        ("PARTITION BY at EVERY 1 DAY LATENESS 1 YEAR", TypeMismatch, "no number of months"),
    ],
)
def test_declarations_that_are_refused(clause: str, kind: type[SqlError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        parse(f"CREATE TABLE t (k STRING, at TIMESTAMP) {clause}")
    assert isinstance(caught.value.where, TextLocation)
