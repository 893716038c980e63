"""A warehouse folder from another party can do no harm to the process that opens it."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.engine.catalog.entries import source_entry
from tidemill.model.errors import Corrupt, TidemillError
from tidemill.storage.commits.manifest import manifest_file, manifest_sequences
from tidemill.storage.folder_store import FolderStore


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A warehouse that would reach for a database and for a folder as soon as it may, and calls a function."""
    shop = tmp_path / "shop.db"
    with sqlite3.connect(shop) as app:
        app.executescript("CREATE TABLE orders (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO orders VALUES (1, 5)")
    app.close()
    (tmp_path / "inbox").mkdir()
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        wh.sql("CREATE TABLE t (id INT, n INT); CREATE MATERIALIZED VIEW called AS SELECT twice(n) AS n FROM t")
        options = f"path = '{shop}', setup = 'create', sync = 'continuous'"
        wh.sql(f"CREATE SOURCE shop TYPE sqlite OPTIONS ({options})")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT id, n FROM shop.orders")
        wh.sql(f"CREATE FEED f INTO t FROM '{tmp_path / 'inbox'}' OPTIONS (sync = 'continuous')")
    (tmp_path / "inbox" / "a.csv").write_text("id,n\n1,1\n")
    return tmp_path / "w"


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources to which a connection was attempted; secrets may not be read."""
    names: list[str] = []

    def refuse(name: str, *_: object) -> None:
        names.append(name)
        raise AssertionError(f"{name} was reached for")

    monkeypatch.setattr(source_entry, "open_source", refuse)
    return names


@pytest.mark.parametrize("read_only", [False, True])
def test_opening_and_looking_reach_for_nothing(stranger: Path, reached: list[str], read_only: bool) -> None:
    inbox = stranger.parent / "inbox"
    with tidemill.open(stranger, runtime="native", backend="python", read_only=read_only) as wh:
        assert sorted(wh.view("v").rows()) == [(1, 5)]
        told = wh.view("v").explain()
        assert "told once the warehouse follows its sources" in told
        shown = [*wh.sql("SHOW SOURCES"), *wh.sql("SHOW FEEDS"), *wh.sql("SHOW VIEWS"), *wh.sql("SHOW TABLES")]
        assert len(shown) == 5
        wh.view("v").verify()
        if not read_only:
            assert {"v", "f"} == wh.troubles().keys()
            assert "without follow=True" in str(wh.sql("SHOW FEEDS")[0][-1])
            assert "without follow=True" in str(wh.sql("SHOW SOURCES")[0][-1])
            wh.compact()
            wh.vacuum()
    assert reached == []
    assert [file.name for file in inbox.iterdir()] == ["a.csv"]


def test_who_asks_for_it_is_followed(stranger: Path) -> None:
    inbox = stranger.parent / "inbox"
    with tidemill.open(stranger, runtime="native", backend="python", follow=True) as wh:
        wh.register_function("twice", lambda n: 2 * n, arguments=["INT"], returns="INT")
        until = time.monotonic() + 30
        while not (inbox / "_taken" / "a.csv").exists() or wh.troubles():
            assert time.monotonic() < until, wh.troubles()
            time.sleep(0.02)


def test_functions_are_those_that_this_process_registers(stranger: Path) -> None:
    """A definition names a function and its types; what it does is never stored."""
    with tidemill.open(stranger, runtime="native", backend="python") as wh, pytest.raises(TidemillError, match="twice"):
        wh.apply({"t": [(1, (1, 1))]})


def test_a_feed_moves_only_its_own_files(stranger: Path) -> None:
    precious = stranger.parent / "precious.csv"
    precious.write_text("mine")
    rewrite(stranger, lambda body: {**body, "positions": {**body.get("positions", {}), "feed:f": "../precious.csv"}})
    with (
        tidemill.open(stranger, runtime="native", backend="python") as wh,
        pytest.raises(Corrupt, match="not the name"),
    ):
        wh.sync("f")
    assert precious.read_text() == "mine"


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the newest manifest, with a checksum that fits: it finds damage, and does not say who wrote it."""
    file = manifest_file(folder / "manifests", max(manifest_sequences(folder / "manifests")))
    (folder / "acknowledged").unlink(missing_ok=True)  # it would tell that this is not the manifest that was committed
    body = json.dumps(change(json.loads(file.read_bytes().partition(b"\n")[0])))
    file.write_bytes(f"{body}\ncrc32 {zlib.crc32(body.encode()):08x}\n".encode())


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000 + "]" * 100_000, "[]", "7", '{"sequence": {}}', '{"added": {"t": [{"file": "../x"}]}}'],
    ids=["deep", "a list", "a number", "wrong types", "elsewhere"],
)
def test_a_manifest_is_data(stranger: Path, body: str) -> None:
    file = manifest_file(stranger / "manifests", max(manifest_sequences(stranger / "manifests")))
    file.write_bytes(f"{body}\ncrc32 {zlib.crc32(body.encode()):08x}\n".encode())
    with pytest.raises(Corrupt):
        FolderStore.open(stranger)


NASTY = [
    '"); open("pwned", "w"); ("',
    "'); open('pwned', 'w'); ('",
    "x\nopen('pwned', 'w')\n",
    "{open('pwned', 'w')}",
    "\\'); open('pwned', 'w') #",
    '"""\nopen("pwned", "w")\n"""',
]


@pytest.mark.parametrize(("name", "backend"), [*((name, "python") for name in NASTY), (NASTY[2], "llvm")])
def test_names_and_texts_are_never_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, backend: str
) -> None:
    """Programs are made of the names of tables, views and columns, and of literals, that a stranger chose."""
    monkeypatch.chdir(tmp_path)
    quoted = f"`{name}`"
    text = "'" + name.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    try:
        with tidemill.open("w", runtime="native", backend=backend) as wh:
            wh.sql(f"CREATE TABLE t ({quoted} STRING, n INT)")
            wh.sql(
                f"CREATE MATERIALIZED VIEW v AS SELECT a.{quoted}, SUM(a.n) AS `s{name}`, {text} AS `t{name}` "
                f"FROM t AS a JOIN t AS b ON a.n = b.n WHERE a.{quoted} = {text} GROUP BY a.{quoted}"
            )
            wh.apply({"t": [(1, (name, 1)), (1, ("other", 1))]})
            assert wh.view("v").rows() == [(name, 2, name)]
            assert wh.view("v").verify()
        with tidemill.open("w", runtime="native", backend=backend) as wh:
            wh.apply({"t": [(1, (name, 2))]})
            assert wh.view("v").rows() == [(name, 4, name)]
    finally:
        assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["a\nopen('pwned', 'w')", "../../x", "", "v'", 7, None])
def test_names_in_the_catalog_are_names(stranger: Path, name: object) -> None:
    """A stranger need not have used SQL to name a view."""

    def renamed(body: dict[str, Any]) -> dict[str, Any]:
        for entry in body["catalog"]["entries"]:
            if entry.get("name") == "called":
                entry["name"] = name
        return body

    rewrite(stranger, renamed)
    with pytest.raises(Corrupt):
        tidemill.open(stranger, runtime="native", backend="python")


def test_compiled_code_is_not_in_the_folder(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="llvm") as wh:
        wh.sql("CREATE TABLE t (k INT); CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
        wh.apply({"t": [(1, (1,)), (1, (1,))]})
        assert wh.view("v").rows() == [(1, 2)]
    found = [file for file in (tmp_path / "w").rglob("*") if file.is_file()]
    assert {file.suffix or file.name for file in found} == {".json", ".jsonl", ".parquet", "acknowledged", "lock"}
    assert not any(b"\x7fELF" in file.read_bytes() for file in found)


def test_nothing_stored_is_unpickled_or_evaluated() -> None:
    """Code is made in one place, of programs. Pickles and compiled modules pass between a driver, its session and its
    Spark workers, as all that Spark's Python does, and pickles from a process that this one has forked, in memory that
    no other has; none is stored."""
    package = Path(tidemill.__file__).parent
    found = {
        (str(file.relative_to(package)), name)
        for file in package.rglob("*.py")
        if re.search(r"eval|exec|__import__|pickle|marshal|shelve|dill", text := file.read_text(encoding="utf-8"))
        for name in _dangerous(ast.parse(text))
    }
    assert {one for one in found if not one[0].startswith(BETWEEN_DRIVER_AND_WORKERS)} == {
        ("runtimes/native/python/compile.py", "exec"),
        ("engine/refresh/forked_jobs.py", "pickle"),
    }
    passing = {name for file, name in found if file.startswith(BETWEEN_DRIVER_AND_WORKERS)}
    assert passing == {"cloudpickle", "pickle", "marshal"}


BETWEEN_DRIVER_AND_WORKERS = (
    "runtimes/spark/bulk_check.py",
    "runtimes/spark/execution/remote_files.py",
    "runtimes/spark/sessions/session_functions.py",
    "runtimes/spark/sessions/worker_packages.py",
    "runtimes/spark/lookup/",
    "runtimes/spark/task_runtime.py",
    "runtimes/spark/tasks/",
)


def _dangerous(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" | "__import__" as name)):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                modules = {alias.name for alias in names} | {getattr(node, "module", None)}
                yield from modules & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
