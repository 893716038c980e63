"""Regular expressions are Java's, and no pattern takes longer than its text is long."""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.model.errors import ArithmeticFault, Unsupported
from tidemill.model.types import STRING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERNS = r"""
    (a+)+$ | a.c | ^ab$ | a|ab | ab|a | a*? | a{2,3} | a{2}b? | (a|b)*c | [a-c]+ | [^a-c]+ | [^\s]+ | [\w-]+ | \d+\.\d*
    \s+ | \S+ | \bab | b\b | \Ba | (?i)AB | (?i)[^x-z]+ | (?i:é)b | (?i)k | (?s).+ | a.+ | .* | $ | ^ | x* | b*$ | ab\Z
    ab\z | \Aab | [\d\s]+ | [\D]+ | [^\D]+ | \p{Lower}+ | \p{L}+ | \P{L} | [\p{Punct}x]+ | \p{Alpha}\p{Digit} | \t | \h+
    \v+ | \H+ | \x41|\u0062 | (a)|(b) | (?:a|b)+ | \Qa.b\E+ | a\.b | [.]b | []a]+ | [a-] | [a\-c]+ | é+
    (?<first>a)(b)? | [é-ü] | 😀 | .b | (a*)b | ((a)|b)+ | -\.?- | ]
"""
TEXTS = (
    *("", "a", "ab", "abc", "aab", "aaab", "xaby", "AB", "aBc", "a\n", "ab\n", "ab\r\n", "a\nb", "a\rc", "a\u0085c"),
    *(
        "a\u2028c",
        "1.5 2.",
        "a b\tc",
        "a\x0bb",
        "é",
        "Éb",
        "éb",
        "K",
        "\u212a",
        "😀b",
        "a.b",
        "a-c",
        "]a",
        "--",
        "x, y;z",
    ),
    "\u00a0",
)

WITHIN_A_CHARACTER = (("😀b", "a*?"), ("😀b", "x*"))
"""Here Java finds nothing also between the two halves of a character, and cuts it into what is no text any more."""


def patterns() -> list[str]:
    lines = PATTERNS.strip().splitlines()
    return [pattern for line in lines for pattern in line.strip().split(" | ")]


REFUSED = (
    *(r"(a)\1", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "a++", "(?>a)b", r"(?<n>a)\k<n>", "[a[b]]", "[a-z&&[b]]"),
    *(
        "(?m)^a",
        "(?x)a b",
        r"\Gab",
        r"a$b",
        r"(a$)b",
        "a{1001}",
        "[",
        "(",
        "a)",
        "*a",
        "a{",
        "a{2,1}",
        "(?<1>a)",
        r"\y",
    ),
    "[b-a]",
)


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_needs_backtracking_is_refused_at_compile_time_and_at_run_time(pattern: str) -> None:
    with pytest.raises(Unsupported, match="regular expression"):
        call("rlike", Column("x", STRING), Literal(pattern, STRING))
    with pytest.raises(ArithmeticFault, match="regular expression"):
        FUNCTIONS["rlike"].apply("aaa", pattern)


@pytest.mark.parametrize("pattern", [r"(a*)*", r"(a|b*)+", r"(\s*)+x"])
def test_where_a_repetition_of_nothing_ends_is_not_asked(pattern: str) -> None:
    assert FUNCTIONS["rlike"].apply("x", pattern)
    with pytest.raises(Unsupported, match="not supported here"):
        call("regexp_extract", Column("x", STRING), Literal(pattern, STRING))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "^(a|a?)+$", "([a-zA-Z]+)*!", "(.*a){12}b", "a{0,40}a{40}b"])
def test_no_pattern_hangs(pattern: str) -> None:
    started = time.process_time()
    assert not FUNCTIONS["rlike"].apply("a" * 20_000 + "\x01", pattern)
    assert time.process_time() - started < 2


def test_like_is_linear() -> None:
    started = time.process_time()
    assert not FUNCTIONS["like"].apply("a" * 20_000, "%a%a%a%a%a%a%a%a%b")
    assert FUNCTIONS["like"].apply("xx" + "ab" * 5_000 + "c", "x_%ab%b%_c")
    assert time.process_time() - started < 2


LIKE = {
    True: [
        ("abcabd", "a%bd"),
        ("abab", "%ab"),
        ("aab", "%a_"),
        ("a\nb", "a_b"),
        ("aaa", "%a%a%a%"),
        ("", "%%"),
        ("xay", "%a%y"),
    ],
    False: [("ab", "%ab%ab"), ("aa", "%a%a%a%"), ("", "_"), ("abc", "%b"), ("ab", "ab_%")],
}


@pytest.mark.parametrize(("like", "text", "pattern"), [(like, *case) for like, cases in LIKE.items() for case in cases])
def test_like_takes_each_piece_where_it_first_comes(like: bool, text: str, pattern: str) -> None:
    assert FUNCTIONS["like"].apply(text, pattern) is like


CALLS = {
    "rlike": "text RLIKE pattern",
    "regexp_extract": "regexp_extract(text, pattern, 0)",
    "regexp_replace": "regexp_replace(text, pattern, '<$0>')",
    "split": "split(text, pattern)",
}


def native(function: str, text: str, pattern: str) -> Any:
    more: dict[str, tuple[Any, ...]] = {"regexp_extract": (0,), "regexp_replace": ("<$0>",)}
    try:
        found = FUNCTIONS[function].apply(text, pattern, *more.get(function, ()))
    except ArithmeticFault:
        return None
    return list(found) if isinstance(found, tuple) else found


@pytest.mark.spark
def test_patterns_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    cases = [case for case in product(TEXTS, patterns()) if case not in WITHIN_A_CHARACTER]
    frame = spark.createDataFrame(cases, "text STRING, pattern STRING").coalesce(1)
    rows = frame.selectExpr("text", "pattern", *(f"{sql} AS {name}" for name, sql in CALLS.items())).collect()
    wrong, open_ = [], 0
    for row, name in product(rows, CALLS):
        found = native(name, row["text"], row["pattern"])
        open_ += found is None
        if found is not None and found != row[name]:
            wrong.append((name, row["text"], row["pattern"], found, row[name]))
    assert not wrong
    assert open_ < len(cases) * len(CALLS) / 20
