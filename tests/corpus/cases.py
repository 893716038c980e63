"""The cases of the corpus: the tables that they are about, and how cases and answers are read and written."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemill.algebra.values import formats
from tidemill.algebra.values.variants import variant_json
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree
from tidemill.model.types import Field, Type

FOLDER = Path(__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.txt") if path.stem != "gaps")

GAPS = {line for line in (FOLDER / "gaps.txt").read_text().splitlines() if line and not line.startswith("#")}
"""Texts in which we are known to differ from Spark: they must do so until they are mended."""

HOLE = "{}"
FILLERS = (
    "i",
    "l",
    "ti",
    "si",
    "f",
    "fl",
    "d",
    "s",
    "n",
    "b",
    "bi",
    "dt",
    "ts",
    "tn",
    "a",
    "sa",
    "st",
    "NULL",
    "2",
    "2.5",
    "'7'",
)
"""What stands in the holes: columns of every type, NULL, and constants, which Spark types in ways of their own."""

TABLES = {
    "t": (
        Field("k", t.INT),
        Field("i", t.INT),
        Field("l", t.BIGINT),
        Field("f", t.DOUBLE),
        Field("d", t.Decimal(6, 2)),
        Field("s", t.STRING),
        Field("n", t.STRING),
        Field("b", t.BOOLEAN),
        Field("dt", t.DATE),
        Field("ts", t.TIMESTAMP),
        Field("a", t.Array(t.INT)),
        Field("sa", t.Array(t.STRING)),
        Field("st", t.Struct((Field("x", t.INT), Field("y", t.STRING)))),
        Field("ti", t.TINYINT),
        Field("si", t.SMALLINT),
        Field("fl", t.FLOAT),
        Field("bi", t.BINARY),
        Field("tn", t.TIMESTAMP_NTZ),
        Field("m", t.Map(t.STRING, t.INT)),
    ),
    "u": (Field("k", t.INT), Field("v", t.STRING), Field("w", t.DOUBLE)),
    "spans": (
        Field("k", t.INT),
        Field("ym", t.YEAR_MONTH),
        Field("y", t.YearMonthInterval("YEAR", "YEAR")),
        Field("dts", t.DAY_TIME),
        Field("d", t.INTERVAL_DAY),
        Field("hm", t.DayTimeInterval("HOUR", "MINUTE")),
        Field("g", t.STRING),
        Field("at", t.DATE),
    ),
}

ROWS: dict[str, list[Row]] = {
    "t": [
        (
            *(1, 5, 4, 2.5, decimal.Decimal("12.34"), "abc", "12", True),
            *(datetime.date(2024, 2, 29), datetime.datetime(2024, 3, 31, 13, 45, 12, 345678)),
            *((3, 1, None), ("x", "y"), (1, "q")),
            *(7, 300, 0.10000000149011612, b"Tide", datetime.datetime(2024, 2, 29, 12, 30), (("b", 2), ("a", None))),
        ),
        (
            *(2, -3, -2, -0.75, decimal.Decimal("-0.50"), "Tide Mill", "3", False),
            *(datetime.date(1999, 12, 31), datetime.datetime(1969, 7, 20, 20, 17, 40)),
            *((), ("b", None, "a"), (None, "w")),
            *(-128, -32768, -2.5, b"", datetime.datetime(1999, 12, 31, 23, 59, 59, 999999), ()),
        ),
        (3, *(None,) * 18),
    ],
    "spans": [
        (1, 14, 24, 93_784_500_000, 86_400_000_000, 3_660_000_000, "a", datetime.date(2024, 1, 31)),
        (2, -5, -12, -1, -172_800_000_000, -60_000_000, "a", datetime.date(2024, 2, 29)),
        (3, None, None, None, None, None, "b", None),
        (4, 14, 24, 93_784_500_000, 86_400_000_000, 0, "b", datetime.date(2024, 3, 1)),
        (5, 0, 0, 0, 0, 3_660_000_000, "b", datetime.date(2024, 3, 31)),
    ],
    "u": [(1, "one", 1.0), (1, "uno", None), (2, "two", 2.0), (4, None, 4.0)],
}

VALUES = {
    "t": """VALUES
        (1, 5, 4L, 2.5D, 12.34BD, 'abc', '12', true, DATE'2024-02-29', TIMESTAMP'2024-03-31 13:45:12.345678',
         array(3, 1, NULL), array('x', 'y'), named_struct('x', 1, 'y', 'q'), 7Y, 300S, 0.1F,
         CAST('Tide' AS BINARY), TIMESTAMP_NTZ'2024-02-29 12:30:00', map('b', 2, 'a', NULL)),
        (2, -3, -2L, -0.75D, -0.50BD, 'Tide Mill', '3', false, DATE'1999-12-31', TIMESTAMP'1969-07-20 20:17:40',
         array(), array('b', NULL, 'a'), named_struct('x', NULL, 'y', 'w'), -128Y, -32768S, -2.5F,
         X'', TIMESTAMP_NTZ'1999-12-31 23:59:59.999999', map()),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL, NULL, NULL)""",
    "spans": """VALUES
        (1, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '2' YEAR, INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '1' DAY,
         INTERVAL '1:01' HOUR TO MINUTE, 'a', DATE'2024-01-31'),
        (2, INTERVAL '-0-5' YEAR TO MONTH, INTERVAL '-1' YEAR, INTERVAL '-0 00:00:00.000001' DAY TO SECOND,
         INTERVAL '-2' DAY, INTERVAL '-0:01' HOUR TO MINUTE, 'a', DATE'2024-02-29'),
        (3, NULL, NULL, NULL, NULL, NULL, 'b', NULL),
        (4, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '2' YEAR, INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '1' DAY,
         INTERVAL '0:00' HOUR TO MINUTE, 'b', DATE'2024-03-01'),
        (5, INTERVAL '0-0' YEAR TO MONTH, INTERVAL '0' YEAR, INTERVAL '0 00:00:00' DAY TO SECOND, INTERVAL '0' DAY,
         INTERVAL '1:01' HOUR TO MINUTE, 'b', DATE'2024-03-31')""",
    "u": "VALUES (1, 'one', 1D), (1, 'uno', NULL), (2, 'two', 2D), (4, NULL, 4D)",
}
"""The same rows as Spark SQL: what it reads from a table of constants it computes without a job."""

BAGS = {name: ZSet.of(rows) for name, rows in ROWS.items()}

QUERY = re.compile(r"\s*(\(\s*)*(SELECT|WITH|VALUES|FROM|TABLE)\b", re.IGNORECASE)


@dataclass
class Case:
    """A text and, once Spark was asked, the lines of its answer."""

    text: str
    answer: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The questions that the text stands for: what fills its holes, and the query."""
        if HOLE not in self.text:
            return [("", query(self.text))]
        return [(filler, query(self.text.replace(HOLE, filler))) for filler in FILLERS]

    @property
    def answers(self) -> dict[str, list[str]]:
        """Spark's answer to each question, by what fills the holes; a refusal begins with ``!``."""
        if HOLE not in self.text:
            return {"": self.answer}
        found: dict[str, list[str]] = {}
        for line in self.answer:
            head, _, rest = line.partition(": ")
            if line.startswith("! "):
                found |= {filler: [head] for filler in rest.split(" ")}
            else:
                found[head] = [rest]
        return found

    def settle(self, answers: dict[str, list[str]]) -> None:
        """Keep these answers, refusals of one kind on one line."""
        if HOLE not in self.text:
            self.answer = answers[""]
            return
        refused: dict[str, list[str]] = {}
        for filler, lines in answers.items():
            if lines[0].startswith("! "):
                refused.setdefault(lines[0], []).append(filler)
        accepted = [f"{filler}: {lines[0]}" for filler, lines in answers.items() if not lines[0].startswith("! ")]
        self.answer = accepted + [f"{kind}: {' '.join(fillers)}" for kind, fillers in refused.items()]


def query(text: str) -> str:
    """The query that a case means: an expression is asked over the rows of ``t``."""
    return text if QUERY.match(text) else f"SELECT {text} AS x FROM t"


def read(path: Path) -> list[Case | str]:
    """The cases of a file, and the lines between them that are comments or empty."""
    found: list[Case | str] = []
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            case = found[-1]
            assert isinstance(case, Case), f"{path.name}: an answer without a case: {line}"
            case.answer.append(line.strip())
        else:
            found.append(line if not line or line.startswith("#") else Case(line))
    return found


def write(path: Path, cases: Iterable[Case | str]) -> None:
    """Write a file back, with the answers that its cases have now."""
    path.write_text("".join(line + "\n" for case in cases for line in _lines(case)))


def _lines(case: Case | str) -> Iterator[str]:
    if isinstance(case, str):
        yield case
    else:
        yield case.text
        yield from (f"    {line}" for line in case.answer)


def written(text: str, rows: Iterable[Row], types: Sequence[Type], *, texts: bool = False) -> list[str]:
    """An answer as the corpus keeps it: one line for an expression, one for the types and each row of a query.

    With ``texts`` intervals and variants are texts already, which is how Spark was asked for them.
    """
    cells = (map(shown, row) if texts else map(_shown_as, row, types) for row in rows)
    lines = sorted(", ".join(row) for row in cells)
    if QUERY.match(text):
        return [", ".join(map(str, types)), *lines]
    return [f"{types[0]}: {' | '.join(lines[:1] if len(set(lines)) == 1 else lines)}"]


def _shown_as(value: Any, type_: Type) -> str:
    """As ``shown``, intervals and variants as Spark writes them."""
    if value is not None and type_ == t.VARIANT:
        return shown(variant_json(value))
    return shown(formats.write(value, type_) if value is not None and t.holds_interval(type_) else value)


def shown(value: Any) -> str:
    """A value as the corpus writes it: readable, and different where values differ."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return repr(value)
        case bytes():
            return f"X'{value.hex()}'"
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case tuple() | ArrayTree():
            return f"({', '.join(map(shown, value))})"
        case decimal.Decimal():
            return f"{value:f}"
    return str(value)


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?", re.IGNORECASE)


def same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two answers are the same, but for the last digit of doubles."""
    if list(one) == list(other):
        return True
    apart = [(NUMBER.split(line), NUMBER.findall(line)) for line in one]
    beside = [(NUMBER.split(line), NUMBER.findall(line)) for line in other]
    if [text for text, _ in apart] != [text for text, _ in beside]:
        return False
    numbers = [number for _, found in apart for number in found]
    others = [number for _, found in beside for number in found]
    return all(a == b or _close(a, b) for a, b in zip(numbers, others, strict=True))


def _close(one: str, other: str) -> bool:
    """Doubles have many digits where they are not exact; decimals here have few."""
    return max(len(one), len(other)) > 15 and math.isclose(float(one), float(other), rel_tol=1e-14)
