"""Damaged, foreign and future folders: an error in its four fields, or no notice at all; never a crash."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill
from tests.storage.samples import child_environment
from tidemill.model.errors import Corrupt, FormatMismatch, StorageError
from tidemill.serving.cli.app import main
from tidemill.storage.commits.format import _encoded

SPEND = [("ann", 12, 2), ("bob", 3, 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A warehouse of five manifests, with runs of a table, a view and its map."""
    folder = tmp_path / "shop"
    for statement in (
        "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT)",
        "INSERT INTO orders VALUES (1, 'ann', 5), (2, 'bob', 3)",
        "CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount), COUNT(*) FROM orders GROUP BY customer",
        "INSERT INTO orders VALUES (3, 'ann', 7)",
    ):
        with tidemill.open(folder, runtime="native") as wh:
            wh.sql(statement)
    return folder


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "maps").rglob("*.parquet"))


def manifests(folder: Path) -> list[Path]:
    return sorted((folder / "manifests").glob("*.json"))


def rewrite(folder: Path, change: Callable[[bytes], bytes]) -> None:
    for file in runs(folder):
        file.write_bytes(change(file.read_bytes()))


def inverted(content: bytes) -> bytes:
    """The same but for its data: the magic numbers and the footer stay."""
    middle = len(content) // 2
    return content[:4] + bytes(byte ^ 0xFF for byte in content[4:middle]) + content[middle:]


def seal(file: Path, body: object) -> None:
    """Write a manifest whose checksum is right."""
    text = json.dumps(body)
    file.write_text(f"{text}\ncrc32 {zlib.crc32(text.encode()):08x}\n")


def with_catalog(folder: Path, catalog: object) -> None:
    (folder / "acknowledged").unlink()  # else it is not the manifest that was committed
    body = json.loads(manifests(folder)[-1].read_text().splitlines()[0])
    seal(manifests(folder)[-1], {**body, "catalog": catalog})


Hurt = Callable[[Path], object]

DAMAGE: dict[str, tuple[Hurt, type[StorageError], str]] = {
    "a truncated run": (lambda w: rewrite(w, lambda c: c[:-20]), Corrupt, "bytes where its manifest says"),
    "an empty run": (lambda w: rewrite(w, lambda c: b""), Corrupt, "bytes where its manifest says"),
    "a run of garbage": (lambda w: rewrite(w, lambda c: b"x" * len(c)), Corrupt, "does not match its checksum"),
    "a run with garbage in it": (lambda w: rewrite(w, inverted), Corrupt, "does not match its checksum"),
    "a missing run": (lambda w: [file.unlink() for file in runs(w)], Corrupt, "is missing"),
    "all runs missing": (lambda w: shutil.rmtree(w / "maps"), Corrupt, "is missing"),
    "a manifest of garbage": (lambda w: manifests(w)[-1].write_bytes(b"\xff\x00{"), Corrupt, "Its checksum differs"),
    "an empty manifest": (lambda w: manifests(w)[-1].write_bytes(b""), Corrupt, "Its checksum differs"),
    "another manifest": (lambda w: seal(manifests(w)[-1], {"sequence": 4}), Corrupt, "It is not a manifest"),
    "another JSON": (lambda w: seal(manifests(w)[-1], [1, 2]), Corrupt, "It is not a manifest"),
    "a manifest missing in between": (lambda w: manifests(w)[-2].unlink(), Corrupt, "is missing"),
    "all manifests missing": (lambda w: shutil.rmtree(w / "manifests"), Corrupt, "the manifests are missing"),
    "a catalog of garbage": (lambda w: with_catalog(w, {"entries": [7]}), Corrupt, "the catalog cannot be read"),
    "a catalog to come": (lambda w: with_catalog(w, {"entries": [{"kind": "cube"}]}), Corrupt, "wrote it last"),
    "a newer format": (lambda w: (w / "tidemill.json").write_bytes(_encoded(99)), FormatMismatch, "has format 99"),
    "no format": (lambda w: (w / "tidemill.json").write_bytes(b"\xff"), Corrupt, "does not say a format number"),
    "no warehouse": (lambda w: (w / "tidemill.json").unlink(), Corrupt, "tidemill.json is missing"),
    "a file": (lambda w: (shutil.rmtree(w), w.write_text("mine")), StorageError, "warehouse"),
}


def fields_of(error: tidemill.TidemillError) -> tuple[bool, ...]:
    return tuple(map(bool, (error.what, error.where, error.detail, error.hint)))


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_explained(folder: Path, kind: str, read_only: bool) -> None:
    hurt, error, message = DAMAGE[kind]
    hurt(folder)
    with (
        pytest.raises(error, match=message) as caught,
        tidemill.open(folder, runtime="native", read_only=read_only) as wh,
    ):
        wh.view("spend").rows()
    assert fields_of(caught.value) == (True, True, True, True)
    assert str(folder) in str(caught.value.where) or "catalog" in kind


@pytest.mark.parametrize("kind", DAMAGE)
def test_the_command_line_explains_damage(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hurt, _, message = DAMAGE[kind]
    hurt(folder)
    for command in (["show", "spend"], ["sql", "INSERT INTO orders VALUES (9, 'eve', 1)", "-r", "native"]):
        monkeypatch.setattr(sys, "argv", ["tidemill", *command, "-w", str(folder)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code, out) == (1, "")
        assert err.startswith("error: ")
        assert "hint: " in err
    assert message in err or kind == "a file"


def test_the_command_line_shows_no_traceback(folder: Path) -> None:
    rewrite(folder, inverted)
    command = [sys.executable, "-m", "tidemill", "verify", "-w", str(folder)]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


HARMLESS: dict[str, Hurt] = {
    "a note": lambda w: (w / "notes.txt").write_text("mine"),
    "a note among the manifests": lambda w: (w / "manifests" / "README").write_text("mine"),
    "a stray run": lambda w: shutil.copy(runs(w)[0], runs(w)[0].with_name("stray.parquet")),
    "no log": lambda w: shutil.rmtree(w / "log"),
    "no staging": lambda w: shutil.rmtree(w / "staging"),
    "no lock": lambda w: (w / "lock").unlink(),
    "a torn log": lambda w: (w / "log" / f"{int(manifests(w)[-1].stem):020}-{99:08}.log").write_bytes(b"TdMl\x01\x00"),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_foreign_does_no_harm(folder: Path, kind: str) -> None:
    HARMLESS[kind](folder)
    with tidemill.open(folder, runtime="native", read_only=True) as reader:
        assert sorted(reader.view("spend").rows()) == SPEND
    with tidemill.open(folder, runtime="native") as wh:
        assert sorted(wh.view("spend").rows()) == SPEND
        wh.sql("DELETE FROM orders WHERE customer = 'bob'")
        wh.compact()
        wh.vacuum()
        assert wh.view("spend").rows() == SPEND[:1]
        assert wh.view("spend").verify()
    if "note" in kind:
        assert [file.read_text() for file in folder.rglob("*") if file.name in ("notes.txt", "README")] == ["mine"]


def test_a_damaged_run_refuses_an_epoch_and_leaves_the_warehouse_as_it_was(folder: Path) -> None:
    good = {file: file.read_bytes() for file in runs(folder)}
    rewrite(folder, inverted)
    with tidemill.open(folder, runtime="native") as wh:
        with pytest.raises(Corrupt):
            wh.apply({"orders": [(-1, (1, "ann", 5))]})
        assert wh.epoch == 2
        for file, content in good.items():
            file.write_bytes(content)
        wh.apply({"orders": [(-1, (1, "ann", 5))]})
        assert sorted(wh.view("spend").rows()) == [("ann", 7, 1), ("bob", 3, 1)]
        assert wh.view("spend").verify()
