"""Feeds of folders: which files are taken in, in which order, once each, and what happens to those that are bad."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tests.serving.test_cli import Tidemill
from tidemill.model.errors import NameTaken, ParseError, SetupError, UnknownName, Unsupported


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


@pytest.fixture
def wh(inbox: Path) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(inbox.parent / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        wh.sql(f"CREATE FEED f INTO t FROM '{inbox}'")
        yield wh


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir()) if folder.is_dir() else []


def test_each_file_is_an_epoch_in_the_order_of_names(wh: tidemill.Warehouse, inbox: Path) -> None:
    pq.write_table(pa.table({"id": [3], "n": [30]}), inbox / "part-10.parquet")
    (inbox / "part-9.json").write_text('{"id": 2, "n": 20}\n{"id": 1, "n": 10, "_weight": -1}\n')
    (inbox / "part-1.csv").write_text("id,n\n1,10\n")
    (inbox / "later").mkdir()
    (inbox / "later" / "a.csv").write_text("id,n\n5,50\n")
    (inbox / "later" / "b.csv").write_text("id,n\n4,40\n")
    (inbox / "spark").mkdir()
    (inbox / "spark" / "_temporary").mkdir()
    (inbox / "spark" / "half.csv").write_text("id,n\n9,9\n")
    for ignored in (".part.csv", "_part.csv", "notes.txt", "part.csv.tmp"):
        (inbox / ignored).write_text("not mine")
    assert wh.sql("SHOW FEEDS")[0] == ("f", "t", str(inbox), "manual", 4, None, 0, None)
    assert wh.sync() == 4
    assert sorted(wh.at(1).table("t").rows()) == [(4, 40), (5, 50)]
    assert sorted(wh.at(3).table("t").rows()) == [(2, 20), (4, 40), (5, 50)]
    assert sorted(wh.table("t").rows()) == [(2, 20), (3, 30), (4, 40), (5, 50)]
    assert names(inbox / "_taken") == ["later", "part-1.csv", "part-10.parquet", "part-9.json"]
    (inbox / "spark" / "_temporary").rmdir()
    assert wh.sync("f") == 5
    assert wh.positions == {"feed:f": "spark"}


def test_what_is_bad_goes_aside_whole_and_can_come_back(wh: tidemill.Warehouse, inbox: Path) -> None:
    wh.sql("CREATE MATERIALIZED VIEW shares AS SELECT id, 10 / n AS share FROM t")
    bad = {
        "1-value.csv": ("id,n\n1,1\n2,much\n", "'much' is not a value of type INT"),
        "2-column.csv": ("id,m\n1,1\n", 'has no column "m"'),
        "3-view.csv": ("id,n\n7,7\n8,0\n", "division by zero"),
        "4-broken.parquet": ("nonsense", "not Parquet"),
        "6-key.csv": ("id,n\n5,1\n", "primary key"),
    }
    for name, (text, _) in bad.items():
        (inbox / name).write_text(text)
    (inbox / "5-good.csv").write_text("id,n\n5,5\n")
    assert wh.sync() == 1
    assert wh.table("t").rows() == [(5, 5)]
    for name, (text, reason) in bad.items():
        assert (inbox / "_aside" / name).read_text() == text
        assert reason.lower() in (inbox / "_aside" / f"{name}.reason").read_text().lower()
    assert wh.sql("SHOW FEEDS")[0][4:7] == (0, "5-good.csv", 5)
    (inbox / "_aside" / "1-value.csv").unlink()
    (inbox / "1-value.csv").write_text("id,n\n1,1\n2,2\n")
    assert wh.sync() == 2
    assert sorted(wh.view("shares").rows()) == [(1, 10.0), (2, 5.0), (5, 2.0)]


def test_a_name_is_taken_in_once(wh: tidemill.Warehouse, inbox: Path) -> None:
    for number, place in enumerate(("a.csv", "a.csv", "b.csv", "a.csv")):
        (inbox / place).write_text(f"id,n\n{number},0\n")
        wh.sync("f")
    assert sorted(wh.table("t").rows()) == [(0, 0), (2, 0)]
    assert [name for name in names(inbox / "_aside") if "reason" not in name] == ["a.csv", "a.csv~2"]
    assert "was taken in before" in (inbox / "_aside" / "a.csv.reason").read_text()


def test_feeds_are_remembered(wh: tidemill.Warehouse, inbox: Path) -> None:
    (inbox / "a.csv").write_text("id,n\n1,1\n")
    wh.close()
    with tidemill.open(inbox.parent / "w", runtime="native", backend="python") as again:
        with pytest.raises(Unsupported, match="cannot be dropped"):
            again.sql("DROP TABLE t")
        assert again.sync() == 1
        again.sql("DROP FEED f; DROP FEED IF EXISTS f; DROP TABLE t")
        assert again.sql("SHOW FEEDS") == []


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE FEED f INTO t FROM 'elsewhere'", NameTaken),
        ("CREATE FEED g INTO t FROM '{inbox}'", NameTaken),
        ("CREATE FEED g INTO nowhere FROM 'x'", UnknownName),
        ("CREATE FEED g INTO t FROM x", ParseError),
        ("CREATE FEED g INTO t FROM 'x' OPTIONS (format = 'xml')", Unsupported),
        ("CREATE FEED g INTO t FROM 'x' OPTIONS (sync = 'often')", Unsupported),
        ("CREATE FEED g INTO t FROM 'x' OPTIONS (color = 'red')", Unsupported),
        ("DROP FEED g", UnknownName),
    ],
)
def test_refused(wh: tidemill.Warehouse, inbox: Path, statement: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        wh.sql(statement.format(inbox=inbox))


def test_a_folder_that_is_gone_is_a_trouble_and_no_loss(wh: tidemill.Warehouse, inbox: Path) -> None:
    inbox.rmdir()
    with pytest.raises(SetupError, match="cannot be read"):
        wh.sync("f")
    assert wh.sql("SHOW FEEDS")[0][4:] == (None, None, None, "the folder of a feed cannot be read")
    inbox.mkdir()
    (inbox / "a.csv").write_text("id,n\n1,1\n")
    assert wh.sync("f") == 1


def test_a_partitioned_folder_is_an_epoch(wh: tidemill.Warehouse, inbox: Path) -> None:
    for n in (1, 2):
        (inbox / "day" / f"n={n}").mkdir(parents=True)
        (inbox / "day" / f"n={n}" / "part-0.csv").write_text(f"id\n{n}\n")
    (inbox / "day" / "_temporary").mkdir()
    assert wh.sync("f") == 0
    (inbox / "day" / "_temporary").rmdir()
    taken = wh.sync("f")
    assert (taken, str(taken.counts)) == (1, "2 rows from 2 files")
    assert sorted(wh.table("t").rows()) == [(1, 1), (2, 2)]


def test_links_are_not_followed(wh: tidemill.Warehouse, inbox: Path, tmp_path: Path) -> None:
    """Who may put files into the folder need not be allowed to read, or write, what a link leads to."""
    secret = tmp_path / "secret.csv"
    secret.write_text("id,n\n1,1\n")
    (inbox / "a.csv").symlink_to(secret)
    (inbox / "b").mkdir()
    (inbox / "b" / "part.csv").symlink_to(secret)
    (inbox / "c").symlink_to(tmp_path)
    taken = wh.sync("f")
    assert (taken.counts.rows, taken.counts.aside) == (0, 2)
    assert "not followed" in (inbox / "_aside" / "a.csv.reason").read_text()
    assert wh.table("t").rows() == []
    assert secret.exists()
    (inbox / "_taken").symlink_to(tmp_path)
    (inbox / "d.csv").write_text("id,n\n2,2\n")
    with pytest.raises(SetupError, match="cannot be moved"):
        wh.sync("f")
    assert not (tmp_path / "d.csv").exists()


def test_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, inbox: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Tidemill(capsys, monkeypatch)
    run("sql", "CREATE STREAM s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE")
    run("sql", "CREATE MATERIALIZED VIEW v WITH (refresh = 'scheduled') AS SELECT SUM(n) AS n FROM s")
    (inbox / "a.csv").write_text("ts,n\n2026-01-01 00:00:00,1\n2026-01-01 00:01:00,2\n")
    (inbox / "b.csv").write_text("ts,n\nlate,1\n")
    told = f"epoch 1: taken into s 2 rows from 1 file; 1 file set aside: {inbox / '_aside'}\n"
    assert run("feed", "s", "inbox").out == told
    watched = run("watch", "--timeout", "0.1", "--interval", "0.2").out
    assert watched.startswith("epoch 1: v 1 epoch, 2 partitions, ")
    assert '"partitions_behind": 2' in run("watch", "--timeout", "0.1", "--interval", "0.2", "--json").out
    assert run("schedule").out == "v\n"
    (inbox / "c.csv").write_text("ts,n\n2026-01-01 00:02:00,4\n")
    assert (
        run("feed", "s", "inbox", "--follow", "--timeout", "1").out
        == "epoch 3: taken into s 1 row from 1 file\nepoch 4: 0 rows\n"
    )
    assert run("show", "v", "--json").out == '{"n": 7}\n'
    assert "all views are fresh" in run("watch", "--timeout", "0.1", "--interval", "0.2").out
