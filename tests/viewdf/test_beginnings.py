"""Views that are created after the first rows: they say since when they are complete, and from there on they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import tidemill

START = datetime(2024, 1, 1, 9)
LATE = "PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES RETAIN 20 MINUTES"
KINDS = {
    "stream": f"CREATE STREAM s (ts TIMESTAMP NOT NULL, k STRING, n INT) {LATE}",
    "forgetful": f"CREATE TABLE s (ts TIMESTAMP NOT NULL, k STRING, n INT) {LATE}",
    "seconds": f"CREATE STREAM s (ts TIMESTAMP NOT NULL, k STRING, n INT) {LATE.replace('5 MINUTES', '90 SECONDS')}",
}
WINDOW = "CREATE VIEW {} AS SELECT k, SUM(n) AS n FROM s [WINDOW 3 MINUTES] GROUP BY k"


def feed(wh: tidemill.Warehouse, minutes: range) -> None:
    """A row in each minute, and a late one that is not too late."""
    for minute in minutes:
        late = (START + timedelta(minutes=minute, seconds=-70), "a", 100)
        wh.apply({"s": [(+1, (START + timedelta(minutes=minute), "a", minute)), (+1, late)]})


@pytest.fixture(params=KINDS)
def wh(request: pytest.FixtureRequest) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql(KINDS[request.param])
        yield warehouse


def test_a_window_is_complete_from_the_partition_that_it_names(wh: tidemill.Warehouse) -> None:
    """The one before it is not: a window that reads what was not seen has fewer rows than there were."""
    assert wh.sql(WINDOW.format("first")).notes == ()
    feed(wh, range(60))
    wh.compact()
    (note,) = wh.sql(WINDOW.format("later")).notes
    assert note.startswith('view "later" begins after epoch 60: rows of s that ')
    since = datetime.fromisoformat(note.rsplit(" from ", 1)[1].removesuffix(" on"))
    feed(wh, range(60, 80))
    shown: dict[str, dict[datetime, int]] = defaultdict(dict)
    for name in ("first", "later"):
        shown[name] = {at: n for at, _, n in wh.view(name).rows()}
    complete = {at: n for at, n in shown["first"].items() if at >= since}
    assert complete and {at: n for at, n in shown["later"].items() if at >= since} == complete
    before = since - timedelta(minutes=1)
    assert shown["later"].get(before) != shown["first"][before]
    assert "begins" not in wh.view("first").explain()
    assert "after epoch 60: rows of s that" in wh.view("later").explain()


def test_what_counts_all_partitions_says_when_it_began(wh: tidemill.Warehouse) -> None:
    feed(wh, range(10))
    for definition in (
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM s GROUP BY k",
        "CREATE VIEW v AS UPDATE v[i] AS SELECT COUNT(*) AS n FROM s[.. i]",
        "CREATE VIEW v AS INITIALIZE v[k] AS SELECT COUNT(*) AS n FROM s[k] "
        "UPDATE v[i] AS SELECT COUNT(*) AS n FROM (SELECT n FROM v[i-1] UNION ALL SELECT n FROM s[i]) AS x",
    ):
        (note,) = wh.sql(definition).notes
        assert note.startswith('view "v" begins after epoch 10: rows of s') and "complete" not in note
        wh.sql("DROP VIEW v")


def test_one_that_is_replaced_begins_anew(wh: tidemill.Warehouse) -> None:
    wh.sql(WINDOW.format("v"))
    feed(wh, range(10))
    replaced = wh.sql(WINDOW.format("v").replace("CREATE", "CREATE OR REPLACE").replace("3 MINUTES", "4 MINUTES"))
    (note,) = replaced.notes
    assert 'view "v" begins after epoch 10: rows of s' in note and "complete from 2024-01-01 0" in note


def test_a_view_over_a_view_begins_with_all_of_its_rows(tmp_path: Path) -> None:
    script = "CREATE VIEW panes AS UPDATE panes[i] AS SELECT k, SUM(n) AS n FROM s[i] GROUP BY k"
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql(KINDS["stream"] + ";" + script)
        feed(wh, range(10))
        made = wh.sql("CREATE VIEW above AS SELECT k, SUM(n) AS n FROM panes [WINDOW 3 MINUTES] GROUP BY k")
        assert made.notes == () and "begins" not in wh.view("above").explain()
        assert wh.sql("CREATE MATERIALIZED VIEW late AS SELECT k FROM s").notes
        assert len(wh.view("above").rows()) == 12
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert "after epoch 10: rows of s that came before are not in it" in wh.view("late").explain()


def test_tables_keep_their_rows() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE s (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES")
        feed(wh, range(10))
        assert wh.sql(WINDOW.format("v")).notes == () and "begins" not in wh.view("v").explain()
        assert wh.view("v").verify().ok
