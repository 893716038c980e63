"""Damage in a warehouse: a check says which views and epochs it concerns, a repair goes on with what is right."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, EpochGone, LockHeld, StorageError
from tidemill.storage.commits.log import replay
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.repair.salvage import SalvagedRows, salvage
from tidemill.storage.runs import ROW_GROUP, RunSegment, write_run

SCRIPT = """
CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT);
CREATE TABLE people (name STRING PRIMARY KEY, town STRING);
CREATE STREAM clicks (page STRING);
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW towns AS
    SELECT town, SUM(total) AS total FROM spend JOIN people ON customer = name GROUP BY town;
CREATE MATERIALIZED VIEW names AS SELECT COUNT(*) AS n FROM people;
CREATE MATERIALIZED VIEW pages AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
"""
VIEWS = ("spend", "towns", "names", "pages")
LAST = 8


def fill(wh: tidemill.Warehouse, numbers: range) -> None:
    for number in numbers:
        name = f"c{number % 3}"
        wh.apply(
            {
                "orders": [(+1, (number * 10 + n, name, number)) for n in range(3)],
                "people": [(+1, (name, f"t{number % 2}"))] if number <= 3 else [],
                "clicks": [(+1, (f"page {number % 2}",))],
            }
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built") / "w"
    with tidemill.open(root, runtime="native") as wh:
        wh.sql(SCRIPT)
        fill(wh, range(1, 5))
    with tidemill.open(root, runtime="native") as wh:
        fill(wh, range(5, LAST + 1))
    return root


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "w")
    return tmp_path / "w"


@pytest.fixture(scope="module")
def living(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a warehouse whose last epochs are in the log."""
    root = tmp_path_factory.mktemp("living")
    shutil.copytree(built, root / "open")
    with tidemill.open(root / "open", runtime="native") as wh:
        fill(wh, range(LAST + 1, LAST + 4))
        shutil.copytree(root / "open", root / "left")
    return root / "left"


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with tidemill.open(folder, runtime="native", read_only=True) as wh:
        tables = {name: sorted(wh.table(name).rows()) for name in wh.tables() if name != "clicks"}
        return tables | {name: sorted(wh.view(name).rows()) for name in wh.views()}


def damage(folder: Path, belongs: Callable[[str], bool]) -> list[Path]:
    """Change a byte in every run of the maps that are chosen by name; returns their files."""
    store = FolderStore.open(folder, read_only=True)
    chosen = [run for name, runs in store._now.state.runs.items() if belongs(name) for run in runs]
    store.close()
    assert chosen
    for run in chosen:
        file = folder / "maps" / run.file
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    return [folder / "maps" / run.file for run in chosen]


def test_a_sound_warehouse_has_nothing_to_repair(folder: Path) -> None:
    for full in (False, True):
        found = tidemill.check(folder, full=full)
        assert found.ok
        assert (found.epoch, found.acknowledged, found.waiting) == (LAST, LAST, 0)
        assert found.files > 10
    before = sorted(folder.rglob("*.parquet"))
    assert not tidemill.repair(folder).done
    assert sorted(folder.rglob("*.parquet")) == before


def test_a_check_names_rows_epochs_and_views(folder: Path) -> None:
    [first, *_] = damage(folder, lambda name: name == "orders")
    found = tidemill.check(folder)
    assert not found
    told = found.damages[0]
    assert told.file == str(first.relative_to(folder))
    assert (told.kind, told.relation, told.views) == ("rows", "orders", ("spend", "towns"))
    assert told.epochs == (1, 4)
    assert told.rows == 12
    assert "Views affected: spend, towns." in str(found)


def test_damaged_views_are_rebuilt_from_their_tables(folder: Path) -> None:
    expected = rows(folder)
    bad = damage(folder, lambda name: name.split("/")[0].split(":")[0] in ("spend", "towns"))
    with pytest.raises(Corrupt):
        rows(folder)
    planned = tidemill.repair(folder, dry_run=True)
    assert (planned.done, planned.rebuilt, planned.lost) == (False, ("spend", "towns"), ())
    assert not (folder / "quarantine").exists()
    done = tidemill.repair(folder)
    assert done.done
    assert sorted(done.set_aside) == sorted(f"quarantine/{file.relative_to(folder)}" for file in bad)
    assert tidemill.check(folder, full=True).ok
    assert rows(folder) == expected
    with tidemill.open(folder, runtime="native") as wh:
        fill(wh, range(LAST + 1, LAST + 3))
        assert all(wh.view(name).verify() for name in VIEWS if name != "pages")
        assert wh.at(2).view("names").rows() == [(2,)]
        with pytest.raises(EpochGone, match="as of epoch 2") as caught:
            wh.at(2).view("spend").rows()
        assert "set aside by a repair" in str(caught.value.detail)


def test_rows_of_a_table_are_lost_only_if_that_is_accepted(folder: Path) -> None:
    before = rows(folder)
    late = damage(folder, lambda name: name == "orders")[-1]
    early = [file for file in (folder / "maps" / late.parent.name).iterdir() if file != late]
    for file in early:  # only the second half of the table is damaged
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    refused = tidemill.repair(folder)
    assert not refused.done
    [lost] = refused.lost
    assert (lost.relation, lost.rows, lost.first, lost.last) == ("orders", 12, 5, 8)
    assert lost.views == ("spend", "towns")
    assert late.exists()
    done = tidemill.repair(folder, accept_loss=True)
    assert done.done
    assert done.epoch == LAST + 1
    after = rows(folder)
    assert after["orders"] == [row for row in before["orders"] if row[0] < 50]
    assert (after["names"], after["pages"]) == (before["names"], before["pages"])
    with tidemill.open(folder, runtime="native") as wh:
        assert wh.epoch == LAST + 1
        assert all(wh.view(name).verify() for name in VIEWS if name != "pages")
        assert len(wh.at(4).table("orders").rows()) == 12
        assert sorted(wh.at(6).view("spend").rows()) != after["spend"]  # views still know how it was
        heard = ZSet(dict.fromkeys(before["spend"], 1))
        for weight, row in wh.view("spend").changes(since=LAST):
            heard.add(row, weight)
        assert sorted(heard) == after["spend"]  # and whoever follows one is told what went
        with pytest.raises(EpochGone, match="orders"):
            wh.at(6).table("orders").rows()
        fill(wh, range(LAST + 1, LAST + 3))
        assert wh.view("towns").verify()


def test_rows_that_were_lost_may_come_again_to_those_that_refer_to_them(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE parents (id INT PRIMARY KEY, x INT) APPEND ONLY")
        wh.sql("CREATE TABLE children (parent INT REFERENCES parents, n INT)")
        wh.sql(
            "CREATE MATERIALIZED VIEW v WITH (strategy = 'viewlet') AS "
            "SELECT x, SUM(n) AS s FROM parents JOIN children ON parent = id GROUP BY x"
        )
        wh.apply({"parents": [(+1, (1, 10))], "children": [(+1, (1, 5))]})
        assert "parents is APPEND ONLY" in wh.view("v").explain()
    damage(tmp_path / "w", lambda name: name == "parents")
    assert tidemill.repair(tmp_path / "w", accept_loss=True).done
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        assert "APPEND ONLY" not in wh.sql("SHOW CREATE TABLE parents").rows()[0][0] + wh.view("v").explain()
        assert wh.view("v").rows() == []
        wh.apply({"parents": [(+1, (1, 20))]})
        assert wh.view("v").rows() == [(20, 5)]


def test_of_a_large_file_only_the_damaged_part_is_lost(tmp_path: Path) -> None:
    folder, many = tmp_path / "w", 2 * ROW_GROUP + 1000
    with tidemill.open(folder, runtime="native") as wh:
        wh.sql("CREATE TABLE t (id BIGINT, k INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        wh.apply({"t": pa.table({"id": range(many), "k": [n % 3 for n in range(many)]})})
    [file] = [file for file in folder.rglob("*.parquet") if pq.read_metadata(file).num_rows == many]
    chunk = pq.read_metadata(file).row_group(1).column(0)
    content = bytearray(file.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    file.write_bytes(content)
    [lost] = tidemill.repair(folder).lost
    assert (lost.rows, lost.bounds["id"]) == (ROW_GROUP, (ROW_GROUP, 2 * ROW_GROUP - 1))
    assert f'{ROW_GROUP:,} rows of "t", of epoch 1, id {ROW_GROUP} to {2 * ROW_GROUP - 1}' in str(lost)
    assert tidemill.repair(folder, accept_loss=True).done
    with tidemill.open(folder, runtime="native") as wh:
        kept = [*range(ROW_GROUP), *range(2 * ROW_GROUP, many)]
        assert sorted(wh.table("t").arrow().column("id").to_pylist()) == kept
        assert wh.statistics("t")["t"].rows == len(kept)
        assert sorted(wh.view("v").rows()) == [(k, sum(n % 3 == k for n in kept)) for k in range(3)]
    assert tidemill.check(folder, full=True).ok
    for at in (2, len(content) - 100):  # a damaged footer says nothing for sure
        assert _saved_after(tmp_path / f"{at}", at, many) is None


def _saved_after(folder: Path, at: int, many: int) -> SalvagedRows | None:
    table = pa.table({"id": range(many), "_weight": [1] * many, "_epoch": [1] * many})
    part = RunSegment(write_run(table, folder, "x.parquet"), folder / "x.parquet", "t")
    content = bytearray(part.path.read_bytes())
    content[at if at < 100 else len(content) - 100] ^= 1
    part.path.write_bytes(content)
    return salvage(part)


def test_what_no_table_keeps_is_lost(folder: Path) -> None:
    damage(folder, lambda name: name == "pages")
    refused = tidemill.repair(folder)
    assert [lost.relation for lost in refused.lost] == ["pages"] * len(refused.lost)
    assert "no table keeps" in refused.lost[0].why
    assert tidemill.repair(folder, accept_loss=True).rebuilt == ("pages",)
    assert tidemill.check(folder).ok


@pytest.mark.parametrize("harm", ["gone", "cut", "flipped"])
def test_lost_epochs_are_said_and_their_numbers_never_used_again(living: Path, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "w"
    shutil.copytree(living, folder)
    [log] = (folder / "log").iterdir()
    content = log.read_bytes()
    if harm == "gone":
        log.unlink()
    else:
        second = replay(log).records[1]
        at = (second.begin + second.end) // 2
        log.write_bytes(content[:at] + (b"" if harm == "cut" else bytes([content[at] ^ 1]) + content[at + 1 :]))
    kept = LAST if harm == "gone" else LAST + 1
    with pytest.raises(Corrupt, match="acknowledged and (is|are) missing"):
        tidemill.open(folder, runtime="native")
    found = tidemill.check(folder)
    assert (found.epoch, found.acknowledged) == (kept, LAST + 3)
    refused = tidemill.repair(folder)
    assert [(lost.first, lost.last) for lost in refused.lost] == [(kept + 1, LAST + 3)]
    done = tidemill.repair(folder, accept_loss=True)
    assert (done.done, done.epoch) == (True, LAST + 4)
    assert [Path(file).parts[:2] for file in done.set_aside] == ([] if harm == "gone" else [("quarantine", "log")])
    with tidemill.open(folder, runtime="native") as wh:
        assert wh.epoch == LAST + 4
        assert len(wh.table("orders").rows()) == 3 * kept
        assert wh.view("spend").verify()
        assert len(wh.at(kept).table("orders").rows()) == 3 * kept
        with pytest.raises(EpochGone, match="lost"):
            wh.at(LAST + 2).table("orders").rows()
        with pytest.raises(EpochGone, match="lost"):
            wh.view("spend").changes(since=LAST + 3)
        assert wh.view("spend").changes(since=kept) == []
        fill(wh, range(LAST + 4, LAST + 6))
        assert wh.epoch == LAST + 6
        assert wh.view("towns").verify()


def test_a_damaged_newest_manifest_goes_back_to_the_one_before(folder: Path) -> None:
    newest = sorted((folder / "manifests").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    assert tidemill.check(folder).damages[0].wrong == "One of its two copies is damaged, the other is whole."
    assert tidemill.repair(folder, dry_run=True).lost == ()
    newest.write_bytes(newest.read_bytes()[:20])
    with pytest.raises(Corrupt, match="is damaged"):
        tidemill.open(folder)
    [lost] = tidemill.repair(folder, dry_run=True).lost
    assert lost.last == LAST
    assert tidemill.repair(folder, accept_loss=True).done
    assert tidemill.check(folder).ok
    assert rows(folder)["people"]


def test_files_that_hold_no_rows_are_written_anew(folder: Path) -> None:
    expected = rows(folder)
    (folder / "tidemill.json").write_bytes(b"nonsense")
    (folder / "acknowledged").write_bytes(b"nonsense")
    assert [damage.kind for damage in tidemill.check(folder).damages] == [
        "format number",
        "mark of what was acknowledged",
    ]
    done = tidemill.repair(folder)
    assert (done.done, done.lost, done.rebuilt) == (True, (), ())
    assert tidemill.check(folder).ok
    assert rows(folder) == expected


def test_a_repair_needs_the_lock_and_a_warehouse(folder: Path, tmp_path: Path) -> None:
    with tidemill.open(folder, runtime="native"):
        assert tidemill.check(folder).ok
        with pytest.raises(LockHeld):
            tidemill.repair(folder)
    for face in (tidemill.check, tidemill.repair):
        with pytest.raises(StorageError, match="no warehouse"):
            face(tmp_path / "absent")


def test_without_manifests_only_a_backup_helps(folder: Path) -> None:
    for manifest in (folder / "manifests").iterdir():
        manifest.write_bytes(b"")
    with pytest.raises(Corrupt, match="no manifest can be read"):
        tidemill.repair(folder, accept_loss=True)
    assert not tidemill.check(folder).ok
    for manifest in (folder / "manifests").iterdir():
        manifest.unlink()
    with pytest.raises(Corrupt, match="no manifest can be read"):
        tidemill.repair(folder, accept_loss=True)
    assert tidemill.check(folder).damages[0].wrong == "All manifests are missing."


def harm(folder: Path, chance: random.Random) -> str:
    """Change, cut short or remove some files at random; returns what was done."""
    everything = sorted(file for file in folder.rglob("*") if file.is_file() and "quarantine" not in file.parts)
    done = []
    for file in chance.sample(everything, chance.choice((1, 1, 2, 4))):
        content = bytearray(file.read_bytes())
        at = chance.randrange(len(content))
        kind = chance.choice(("changed", "changed", "cut", "removed"))
        if kind == "removed":
            file.unlink()
        elif kind == "cut":
            file.write_bytes(content[:at])
        else:
            content[at] ^= chance.randrange(1, 256)
            file.write_bytes(content)
        done.append(f"{file.relative_to(folder)} {kind} at {at}")
    return "; ".join(done)


def harm_and_repair(living: Path, folder: Path, seed: int, expected: dict[str, list[tuple[object, ...]]]) -> str:
    """Damage a warehouse: it is told or harmless, and a repair leaves one that is right in itself; returns which."""
    shutil.copytree(living, folder)
    what = harm(folder, random.Random(seed))
    try:
        assert rows(folder) == expected, what
        outcome = "harmless"
    except Corrupt:
        outcome = "told"
    try:
        told = tidemill.repair(folder, accept_loss=True)
    except Corrupt as fault:
        assert "no manifest can be read" in fault.what, what  # noqa: PT017
        return "beyond repair"
    assert tidemill.check(folder, full=True).ok, what
    after = rows(folder)
    for table in after.keys() & {"orders", "people"}:
        assert set(after[table]) <= set(expected[table]), what
    if not told.lost:
        assert after == expected, what
    with tidemill.open(folder, runtime="native") as wh:
        if "clicks" not in wh.tables():
            return outcome  # it went back to before the tables were made
        fill(wh, range(100, 102))
        assert all(wh.view(name).verify() for name in wh.views() if name != "pages"), what
        for epoch in range(1, wh.epoch + 1):
            with suppress(EpochGone):
                assert set(wh.at(epoch).table("orders").rows()) <= {*expected["orders"], *wh.table("orders").rows()}
    return outcome


@pytest.mark.parametrize("seed", range(6))
def test_any_damage_is_told_and_repaired(living: Path, tmp_path: Path, seed: int) -> None:
    harm_and_repair(living, tmp_path / "w", seed, rows(living))


@pytest.mark.long
def test_much_damage_is_told_and_repaired(living: Path, tmp_path: Path) -> None:
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    expected, counts = rows(living), Counter[str]()
    for seed in count(1000):
        if time.monotonic() > until:
            break
        counts[harm_and_repair(living, tmp_path / "w", seed, expected)] += 1
        shutil.rmtree(tmp_path / "w")
    print(f"\n{dict(counts)}")
