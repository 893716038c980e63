"""The listings of the ViewDF thesis as printed: those that are right run, and all others are refused by name.

Its ellipses are written out, and letters that stand for columns and conditions are replaced. What is wrong is in the
table "Where the thesis is mended" of the design.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import ParseError, UnknownName

PRINTED = Path(__file__).parent / "thesis.sql"
WINDOW = 60

TABLES = """
CREATE TABLE S (timestamp TIMESTAMP, src STRING, dest STRING, loss INT) PARTITION BY timestamp EVERY 1 minute;
CREATE TABLE R (timestamp TIMESTAMP, Attr INT, x INT) PARTITION BY timestamp EVERY 1 minute;
CREATE TABLE R1 (timestamp TIMESTAMP, Attr INT, x INT) PARTITION BY timestamp EVERY 1 minute;
CREATE TABLE R2 (timestamp TIMESTAMP, Attr INT, y INT) PARTITION BY timestamp EVERY 1 minute;
"""
START = datetime(2013, 5, 1, 9)

PANES = """
CREATE VIEW {0} AS UPDATE {0}[i] AS select src,dest,{1}(loss) as loss from S[i] group by src,dest;
"""
PREFIXES = """
CREATE VIEW aux4 AS
INITIALIZE aux4[k] AS select src,dest,sum(loss) as loss from S[k] group by src,dest;
UPDATE aux4[i] AS select src,dest,sum(loss) as loss from(
  select * from aux4[i-1] union all select src,dest,sum(loss) as loss from S[i] group by src,dest) as X
group by src, dest;
"""
HELPER = """
CREATE VIEW Helper AS
INITIALIZE Helper[k] AS
  SELECT timestamp,src,dest,1 AS currentState, 1 AS count, loss AS sum_loss FROM S[k] WHERE loss>10
UPDATE Helper[i] AS
  SELECT New.timestamp, New.src, New.dest, LEAST(COALESCE(Prev.currentState, 0) + 1, 4),
    COALESCE(Prev.count, 0) + 1, COALESCE(Prev.sum_loss, 0) + loss
  FROM S[i] as New LEFT OUTER JOIN Helper[i-1] as Prev ON New.src = Prev.src AND New.dest = Prev.dest
  WHERE New.loss>10;
"""
"""What the printed views read and the thesis defines wrongly, as it is mended."""


def _printed() -> dict[str, str]:
    parts = re.split(r"^-- (.*)\n", PRINTED.read_text(), flags=re.M)[1:]
    return {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


LISTINGS = _printed()


def listing(title: str) -> str:
    """A listing by the beginning of its title, its ellipses written out."""
    (text,) = (text for name, text in LISTINGS.items() if name.startswith(f"{title}:"))
    return _written_out(text)


def _written_out(text: str) -> str:
    """A union of partitions from k-59 to k, of which the second to the last but one are three dots."""
    pattern = r"(select \* from (\w+)\[(\w)-59\]\s+union all\s+)\.\.\."

    def partitions(found: re.Match[str]) -> str:
        between = (f"select * from {found[2]}[{found[3]}-{back}]" for back in range(WINDOW - 2, 0, -1))
        return found[1] + "\n  union all\n  ".join(between)

    return re.sub(pattern, partitions, text)


@pytest.fixture
def wh() -> Iterable[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(TABLES)
        yield warehouse


Losses = list[tuple[datetime, str, str, int]]


def losses(seed: int = 0, minutes: int = 100) -> Losses:
    """Measurements of a few pairs, some of them missing; of one pair none after some minutes."""
    drawn = random.Random(seed)
    return [
        (START + timedelta(minutes=minute), src, "z", drawn.randint(1, 30))
        for minute in range(minutes)
        for src in "abc"
        if drawn.random() < 0.8 and (src != "c" or minute < 20)
    ]


def feed(warehouse: tidemill.Warehouse, rows: Losses) -> None:
    """Minute by minute, as feeds bring them; two of the minutes late."""
    by_minute = defaultdict(list)
    for row in rows:
        by_minute[row[0]].append((+1, row))
    late = [START + timedelta(minutes=minute) for minute in (7, 70)]
    for minute in sorted(by_minute, key=lambda at: (at in late, at)):
        warehouse.apply({"S": by_minute[minute]})


def windows(rows: Losses, combine: Any) -> list[tuple[datetime, str, str, int]]:
    """Of each minute and pair the losses of the last hour, combined."""
    times = [row[0] for row in rows]
    found = []
    at = min(times)
    while at <= max(times):
        groups = defaultdict(list)
        for time, src, dest, loss in rows:
            if at - timedelta(minutes=WINDOW) < time <= at:
                groups[src, dest].append(loss)
        found += [(at, *pair, combine(values)) for pair, values in groups.items()]
        at += timedelta(minutes=1)
    return sorted(found)


@pytest.mark.parametrize(
    ("title", "before", "combine"),
    [
        ("3.2.1 View1", "", sum),
        ("3.2.2 View1", "", sum),
        ("4.2 View3", PANES.format("aux3", "sum"), sum),
        ("4.2 View4", PREFIXES, sum),
        ("4.2 View5", PANES.format("aux5", "sum"), sum),
        ("4.2 View6", PANES.format("aux6", "max"), max),
    ],
)
def test_windows(wh: tidemill.Warehouse, title: str, before: str, combine: Any) -> None:
    """With losses above 0 and nothing before the first partition, the first ViewDF of View1 is right as well."""
    wh.sql(before + listing(title))
    rows = losses()
    feed(wh, rows)
    assert sorted(wh.view(title.split()[1]).rows()) == windows(rows, combine)


def test_patterns(wh: tidemill.Warehouse) -> None:
    """View2 is read here; materialized it is the same, and so is mv, whose runs are those of consecutive minutes."""
    wh.sql(listing("3.2.1 View2") + ";" + HELPER + listing("4.1.2 mv"))
    wh.sql(listing("3.2.1 View2").replace("CREATE VIEW View2", "CREATE MATERIALIZED VIEW kept"))
    every_minute = [
        (START + timedelta(minutes=minute), src, "z", random.Random(f"{src}{minute}").randint(5, 60))
        for minute in range(60)
        for src in "ab"
    ]
    feed(wh, every_minute)
    expected = []
    for src in "ab":
        run: list[int] = []
        for time, _, dest, loss in (row for row in every_minute if row[1] == src):
            run = [*run, loss] if loss > 10 else []
            if len(run) >= 4:
                expected.append((time, src, dest, len(run), sum(run)))
    assert sorted(wh.sql("SELECT * FROM View2").rows()) == sorted(wh.view("kept").rows()) == sorted(expected)
    assert sorted(wh.view("mv").rows()) == sorted(expected)


def test_select_project_and_join(wh: tidemill.Warehouse) -> None:
    """Rows are joined within their partition; of two columns of one name the second has a number behind."""
    for title in ("View8", "View9", "View10", "View11"):
        wh.sql(listing(f"3.2.2 {title}"))
    one, two = (START, 1, 5), (START + timedelta(minutes=1), 1, 1)
    wh.apply({table: [(+1, one), (+1, two)] for table in ("R", "R1", "R2")})
    assert sorted(wh.view("View8").rows()) == [one]
    assert sorted(wh.view("View9").rows()) == [one, two]
    assert wh.view("View10").columns == ("timestamp", "attr", "x", "timestamp_2", "attr_2", "y")
    assert sorted(wh.view("View10").rows()) == [one + one, two + two]
    assert wh.view("View11").rows() == [(START, 5, 5)]


@pytest.mark.parametrize(
    ("title", "counts"),
    [
        ("4.3 Helper_S: on insert into R", [1, 2, 3]),
        ("4.3 Helper_R: on insert into R", [1, 1, 1]),
        ("4.3 Helper_R: on insert into S", [1, 2, 3]),
        ("4.3 Helper_S: on insert into S", [1, 1, 1]),
    ],
)
def test_counts_of_single_tuples(wh: tidemill.Warehouse, title: str, counts: list[int]) -> None:
    """They add the same for each partition, so they count the tuples of a feed that brings one a minute."""
    wh.sql(LISTINGS[title])
    for minute in range(3):
        at = START + timedelta(minutes=minute)
        wh.apply({"R": [(+1, (at, 1, 1))], "S": [(+1, (at, "a", "b", 1))]})
    assert [count for _, count in sorted(wh.view(title.split()[1].rstrip(":")).rows())] == counts


@pytest.mark.parametrize(
    ("title", "error", "words"),
    [
        ("4.1.2 Helper: its first state", UnknownName, 'no column "currentstate"'),
        ("4.1.2 BK: Helper with unions", ParseError, 'of "helper" are defined here, not those of "bk"'),
        ("4.2 aux3: the sums of partitions", ParseError, "INITIALIZE has one query"),
        ("4.2 aux4: prefixes", ParseError, "INITIALIZE has one query"),
        ("4.2 aux6: the greatest values of partitions", ParseError, "INITIALIZE has one query"),
        ("4.3 View7: on insert into R", ParseError, "FROM r, s"),
        ("4.3 View7: on insert into S", ParseError, "FROM r, s"),
    ],
)
def test_refused(wh: tidemill.Warehouse, title: str, error: type[Exception], words: str) -> None:
    text = re.sub(r"^\s*\.\.\.\n", "", LISTINGS[title], flags=re.M)
    with pytest.raises(error) as refused:
        wh.sql(text)
    assert words.lower() in str(refused.value).lower()
    assert not wh.views()


def test_every_listing_is_here() -> None:
    """Each is run or refused above, by its title or the beginning of it."""
    assert len(LISTINGS) == 23
    source = Path(__file__).read_text()
    assert [title for title in LISTINGS if title.split()[1].rstrip(":") not in source] == []
