"""The command line: what each command prints, and how it fails. Everything runs in a folder of its own."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.main import get_command

from tests.ways import tasks_if_possible
from tidemill.changes.zset import ZSet
from tidemill.compiler import choose, choose_recomputation
from tidemill.engine.epochs import placement
from tidemill.engine.handles import ViewHandle
from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.engine.results import Verification
from tidemill.model.errors import SetupError
from tidemill.runtimes.spark.sessions import session
from tidemill.serving.cli.app import app, main
from tidemill.serving.cli.watch_changes import watch_changes
from tidemill.serving.demo import recompute, run_demo
from tidemill.serving.demo.shop import SHOP_TABLES, SHOP_VIEWS, Shop

SCHEMA = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING NOT NULL, amount DECIMAL(12,2));
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str


class Tidemill:
    """Runs commands as a shell would, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = monkeypatch

    def __call__(self, *arguments: object, stdin: str = "") -> Outcome:
        self._patch.setattr(sys, "argv", ["tidemill", *map(str, arguments)])
        self._patch.setattr(sys, "stdin", io.StringIO(stdin))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capsys.readouterr()
        return Outcome(code, out, err)


@pytest.fixture
def tidemill(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tidemill:
    monkeypatch.chdir(tmp_path)
    return Tidemill(capsys, monkeypatch)


@pytest.fixture
def shop(tidemill: Tidemill) -> Tidemill:
    """A warehouse in the default folder with one table, one view and two rows."""
    assert tidemill("sql", SCHEMA).code == 0
    assert tidemill("sql", "INSERT INTO orders VALUES (1, 'ann', 9.50), (2, 'bob', 3.00)").code == 0
    return tidemill


def untimed(text: str) -> str:
    """A report without the seconds that statements took."""
    return re.sub(r" \(\d+\.\d{3} s\)", "", text)


def _paths(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands, those of groups included."""
    for name, command in group.commands.items():
        yield from _paths(command, (*path, name)) if hasattr(command, "commands") else [(*path, name)]


COMMANDS = list(_paths(get_command(app)))


def test_audit_fails_where_a_promise_is_broken(tidemill: Tidemill) -> None:
    lines = '{"source": [[1]]}\n{"source": [[2]]}\n{"warehouse": [[1]]}\n'
    assert tidemill("audit", "--history", "-", "--level", "weak", stdin=lines).code == 0
    outcome = tidemill("audit", "--history", "-", stdin=lines)
    assert outcome.code == 1
    assert outcome.out.endswith("strong was promised and is broken\n")
    assert tidemill("audit", "--history", "-", stdin='{"source": 1}').err.startswith("error: the line is not a state")
    assert tidemill("audit").code == 2
    assert "there is no warehouse here" in tidemill("audit", "v").err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_examples(tidemill: Tidemill, command: tuple[str, ...]) -> None:
    outcome = tidemill(*command, "--help")
    assert outcome.code == 0
    assert re.search(rf"Examples:\n    .*tidemill {' '.join(command)}", outcome.out)


@pytest.mark.parametrize("path", ["sql", "shell", "show", "objects", "watch", "verify", "pipelines run"])
def test_rows_have_all_forms(path: str) -> None:
    command: Any = get_command(app)
    for name in path.split():
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--csv"} <= options


def test_sql_prints_a_table(shop: Tidemill) -> None:
    outcome = shop("sql", "SELECT customer, total, NULL AS gap FROM spend")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["customer", "total", "gap"] in lines
    assert ["ann", "9.50", "NULL"] in lines
    assert ["2", "rows"] in lines


def test_sql_prints_json_lines(shop: Tidemill) -> None:
    rows = [json.loads(line) for line in shop("sql", "SELECT * FROM spend", "--json").out.splitlines()]
    assert sorted(rows, key=lambda row: row["n"] and row["customer"]) == [
        {"customer": "ann", "total": "9.50", "n": 1},
        {"customer": "bob", "total": "3.00", "n": 1},
    ]


def test_sql_reads_files_and_pipes(tidemill: Tidemill, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text(SCHEMA)
    assert untimed(tidemill("sql", "-f", "schema.sql", "-w", "w").out).splitlines() == [
        "[1/2] created table orders",
        "[2/2] created view spend",
    ]
    assert "spend" in tidemill("sql", "-w", "w", stdin="SHOW VIEWS").out
    inserted = "INSERT INTO orders VALUES (1, 'ann', 1); INSERT INTO orders VALUES (2, 'bob', 1); SELECT 7 AS n"
    assert tidemill("sql", inserted, "-w", "w", "--json").out == '{"n": 7}\n'
    again = tidemill("sql", "DELETE FROM orders; INSERT INTO orders VALUES (1, 'x', 1), (1, 'y', 1)", "-w", "w")
    assert (again.code, untimed(again.out)) == (1, "[1/2] 2 row changes in epoch 3\n")
    assert again.err.startswith("statement 2 of 2 failed; 1 before it was run\nerror: ")
    (tmp_path / "bad.sql").write_text("SELECT 1;\nSELEC 2;")
    outcome = tidemill("sql", "-f", "bad.sql", "-w", "w")
    assert outcome.code == 1
    assert "bad.sql:2:1" in outcome.err


def test_objects_are_declared_loaded_and_asked(tidemill: Tidemill, tmp_path: Path) -> None:
    module = "module m { class part (extent Parts key id) { attribute long id; attribute bag<part> of; }; };"
    (tmp_path / "parts.odl").write_text(module)
    (tmp_path / "parts.jsonl").write_text('{"id": 1, "of": [2, {"id": 3, "of": []}]}\n{"id": 2}\n')
    listed = tidemill("objects", "parts.odl", "-w", "w", "--json")
    assert json.loads(listed.out) == {"class": "part", "extends": None, "extent": "parts", "keys": "id", "objects": 0}
    assert tidemill("load", "Parts", "parts.jsonl", "-w", "w").out == "epoch 1: 3 objects loaded for Parts\n"
    defined = "DEFINE below() AS select struct(id: p.id, of: q.id) from p in Parts, q in p.of"
    assert tidemill("sql", defined, "-w", "w").out == "created view below\n"
    assert '{"id": 1, "of": 3}' in tidemill("show", "below", "-w", "w", "--json").out
    assert '{"count": 3}' in tidemill("sql", "OQL count(Parts)", "-w", "w", "--json").out
    assert tidemill("objects", "-w", "w", "--odl").out == f"{module}\n"
    refused = tidemill("sql", "DELETE FROM parts", "-w", "w")
    assert refused.code == 1 and "holds objects" in refused.err


def test_show_lists_and_travels_in_time(shop: Tidemill) -> None:
    shop("sql", "DELETE FROM orders WHERE id = 2")
    listed = [json.loads(line) for line in shop("show", "--json").out.splitlines()]
    assert listed == [{"name": "orders", "kind": "table", "rows": 1}, {"name": "spend", "kind": "view", "rows": 1}]
    then = [json.loads(line) for line in shop("show", "spend", "--at", "1", "--json").out.splitlines()]
    assert {row["customer"] for row in then} == {"ann", "bob"}
    assert "1 of 2 rows" in shop("show", "orders", "--at", "1", "--limit", "1").out


def test_explain_and_verify(shop: Tidemill) -> None:
    assert "spend" in shop("explain", "spend").out
    outcome = shop("verify")
    assert (outcome.code, outcome.out) == (0, "spend: 2 rows, equal to recomputation by the evaluator\n")
    told = json.loads(shop("verify", "spend", "--against", "evaluator", "--json").out)
    assert told == {"view": "spend", "ok": True, "rows": 2, "oracle": "the evaluator"}


def test_verify_reads_files_too(shop: Tidemill) -> None:
    outcome = shop("verify", "--files")
    assert outcome.code == 0
    assert "checksums match" in outcome.out


def test_verify_fails_where_a_view_differs(shop: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Verification("spend", 2, ZSet({("cid", 1): 1}), ZSet())
    monkeypatch.setattr(ViewHandle, "verify", lambda self, against=None: wrong)
    outcome = shop("verify")
    assert outcome.code == 1
    assert "missing ('cid', 1)" in outcome.out


def test_compact_and_vacuum_say_what_they_freed(shop: Tidemill) -> None:
    assert shop("compact").out.endswith("bytes freed\n")
    assert shop("vacuum", "--keep", "1").out.endswith("bytes freed\n")
    assert shop("verify").code == 0


def test_load_takes_files(shop: Tidemill, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,customer,amount\n3,ann,1.00\n4,cid,2.00\n")
    outcome = shop("load", "orders", "more.csv")
    assert (outcome.code, outcome.err) == (0, "")  # no progress bar in a pipe
    assert "epoch 2" in outcome.out
    assert len(shop("show", "orders", "--json").out.splitlines()) == 4


def test_bytes_and_maps_come_in_and_go_out(tidemill: Tidemill, tmp_path: Path) -> None:
    tidemill("sql", "CREATE TABLE t (k INT, b BINARY, m MAP<DATE, DECIMAL(6,2)>)", "-w", "w")
    row = '{"k": 1, "b": "AP8=", "m": {"2026-01-02": "1.50"}}'
    (tmp_path / "rows.jsonl").write_text(row + "\n")
    (tmp_path / "rows.csv").write_text('k,b,m\n2,abc,"{""2026-01-02"": 3}"\n')
    (tmp_path / "bad.jsonl").write_text('{"k": 3, "b": "no Base64"}\n')
    for file in ("rows.jsonl", "rows.csv"):
        assert tidemill("load", "t", file, "-w", "w").code == 0
    refused = tidemill("load", "t", "bad.jsonl", "-w", "w")
    assert refused.code == 1 and refused.err.startswith("error: a BINARY column is not Base64\n  bad.jsonl:1")
    listed = tidemill("sql", "SELECT * FROM t ORDER BY k", "-w", "w", "--json").out.splitlines()
    assert listed == [row, '{"k": 2, "b": "YWJj", "m": {"2026-01-02": "3.00"}}']
    assert "X'00ff'" in tidemill("sql", "SELECT b FROM t", "-w", "w").out


def test_load_refuses_a_bad_row_and_changes_nothing(shop: Tidemill, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("id,customer,amount\n3,ann,1.00\n4,cid,cheap\n")
    outcome = shop("load", "orders", "bad.csv")
    assert outcome.code == 1
    assert outcome.err.splitlines()[:2] == [
        "error: 'cheap' is not a value of type DECIMAL(12,2)",
        "  bad.csv:3, orders.amount",
    ]
    assert len(shop("show", "orders", "--json").out.splitlines()) == 2


def test_whatever_is_taken_is_counted(tidemill: Tidemill, tmp_path: Path) -> None:
    tidemill("sql", "CREATE TABLE s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 1 MINUTE", "-w", "w")
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / "in" / f"ts={day} 00%3A00%3A00").mkdir(parents=True)
        (tmp_path / "in" / f"ts={day} 00%3A00%3A00" / "part-0.csv").write_text("n\n1\n2\n")
    (tmp_path / "in" / "_SUCCESS").touch()
    told = "epoch 1: loaded into s 4 rows from 2 files; skipped _SUCCESS\n"
    assert tidemill("load", "s", "in", "-w", "w") == Outcome(0, told, "")
    late = '{"table": "s", "weight": 1, "row": {"ts": "2026-01-01 00:00:00", "n": 7}}\n'
    assert tidemill("apply", "-", "--format", "pairs", "-w", "w", stdin=late).out == (
        "epoch 2: row changes 1 of s; 1 of them late\n"
    )
    (tmp_path / "empty").mkdir()
    nothing = tidemill("load", "s", "empty", "-w", "w")
    assert (nothing.code, nothing.out) == (1, "")
    assert "nothing to read" in nothing.err


def test_other_machines_are_refused(tidemill: Tidemill, tmp_path: Path) -> None:
    tidemill("sql", "CREATE TABLE t (a INT)", "-w", "w")
    for command in (
        ("sql", "SELECT 1", "-w", "ftp://bucket/w"),
        ("show", "-w", "hdfs://name/w"),
        ("load", "t", "s3a://bucket/t", "-w", "w"),
        ("feed", "t", "kafka://broker/t", "-w", "w"),
    ):
        outcome = tidemill(*command)
        assert (outcome.code, outcome.out) == (1, "")
        assert "cannot be used" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_load_sets_bad_rows_aside(shop: Tidemill, tmp_path: Path) -> None:
    (tmp_path / "mixed.csv").write_text("id,customer,amount\n3,ann,1.00\n4,cid,cheap\n1,ann,7.00\n5,,1\n")
    outcome = shop("load", "orders", "mixed.csv", "--reject", "bad.jsonl")
    assert outcome.code == 0
    assert outcome.out == "epoch 2: loaded into orders 1 row from 1 file; 3 bad rows set aside: bad.jsonl\n"
    rejects = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(row["line"], row["text"]) for row in rejects] == [(3, "4,cid,cheap"), (4, "1,ann,7.00"), (5, "5,,1")]
    assert len(shop("show", "orders", "--json").out.splitlines()) == 3
    assert shop("verify").code == 0


def test_apply_reads_debezium_records(shop: Tidemill, tmp_path: Path) -> None:
    source = {"table": "orders"}
    records = [
        {"op": "u", "after": {"id": 2, "customer": "bob", "amount": "5"}, "source": source},
        {"payload": {"op": "c", "after": {"id": 3, "customer": "cid", "amount": 1.25}, "source": source}},
        {"op": "d", "before": {"id": 1}, "source": source},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert shop("apply", "log.jsonl").out == "epoch 2: row changes 4 of orders\n"
    rows = [json.loads(line) for line in shop("show", "spend", "--json").out.splitlines()]
    assert {row["customer"]: row["total"] for row in rows} == {"bob": "5.00", "cid": "1.25"}


def test_the_feed_of_one_warehouse_is_the_input_of_another(shop: Tidemill) -> None:
    shop("sql", "UPDATE orders SET amount = 4 WHERE id = 2")
    feed = shop("watch", "spend", "--since", "0", "--timeout", "0.2", "--interval", "0.05", "--json").out
    shop("sql", "CREATE TABLE spend (customer STRING, total DECIMAL(22,2), n BIGINT)", "-w", "copy")
    assert shop("apply", "-", "--format", "pairs", "-w", "copy", stdin=feed).code == 0
    copied = shop("show", "spend", "-w", "copy", "--json").out.splitlines()
    assert sorted(copied) == sorted(shop("show", "spend", "--json").out.splitlines())


def test_watch_follows_a_writer_of_another_process(shop: Tidemill, tmp_path: Path) -> None:
    script = "from tidemill.serving.cli.app import main; main()"
    insert = [sys.executable, "-c", script, "sql", "INSERT INTO orders VALUES (3, 'cid', 1.00)"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = threading.Timer(0.3, lambda: subprocess.run(insert, cwd=tmp_path, env=environment, check=True))
    writer.start()
    batch, columns = next(watch_changes("warehouse", "spend", interval=0.05, timeout=60))
    writer.join()
    ((weight, row),) = batch
    assert (batch.epoch, weight, row[0], columns[0]) == (2, 1, "cid", "customer")


def test_watch_shows_what_is_asked_for_and_updates_as_one_line(shop: Tidemill) -> None:
    shop("sql", "UPDATE orders SET amount = 4 WHERE customer = 'bob'")
    watch = ("watch", "spend", "--since", "1", "--timeout", "0.2", "--interval", "0.05")
    (line,) = shop(*watch).out.splitlines()
    assert "->" in line
    assert line.count("bob") == 2
    assert shop(*watch, "--where", "customer=bob").out.splitlines() == [line]
    assert shop(*watch, "--where", "customer=bob", "--where", "customer=ann").out.splitlines() == [line]
    assert shop(*watch, "--where", "customer=NULL").out == ""
    assert len(shop(*watch, "--where", "n=1", "--json").out.splitlines()) == 2


FAILURES = [
    (("sql", "SELEC 1"), "SELEC"),
    (("sql", "SELECT * FROM nowhere"), "nowhere"),
    (("sql", "SELECT nothing FROM orders"), "nothing"),
    (("sql", "INSERT INTO orders VALUES (1, 'ann', 1)"), "primary key"),
    (("sql", "INSERT INTO orders VALUES (3, NULL, 1)"), "NULL"),
    (("sql", "CREATE TABLE orders (a INT)"), "orders"),
    (("load", "nowhere", "x.csv"), "nowhere"),
    (("load", "orders", "x.csv"), "no such file"),
    (("apply", "x.jsonl"), "no such file"),
    (("show", "nothing"), "The warehouse has: orders, spend."),
    (("show", "spend", "--at", "99"), "99"),
    (("explain", "orders"), "orders"),
    (("verify", "nothing"), "nothing"),
    (("watch", "nothing"), "nothing"),
    (("watch", "spend", "--where", "shoe=1"), "shoe"),
    (("watch", "spend", "--where", "n=many"), "many"),
    (("watch", "spend", "--where", "n"), "has no value"),
    (("show", "-w", "elsewhere"), "no warehouse here"),
    (("sql", "-f", "missing.sql"), "missing.sql"),
    (("bench", "nothing"), "nothing"),
]


@pytest.mark.parametrize(("arguments", "text"), FAILURES)
def test_an_error_is_rendered_and_the_exit_code_is_one(shop: Tidemill, arguments: tuple[str, ...], text: str) -> None:
    outcome = shop(*arguments)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert text in outcome.err
    assert "Traceback" not in outcome.err
    assert len(shop("show", "orders", "--json").out.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("sale",),
        ("show", "--limit", "many"),
        ("sql", "SELECT 1", "-f", "x.sql"),
        ("sql", "SELECT 1", "--runtime", "abacus"),
        ("apply", "x", "--format", "xml"),
        ("vacuum", "--keep", "0"),
        ("load", "orders"),
    ],
)
def test_wrong_usage_is_exit_code_two(tidemill: Tidemill, arguments: tuple[str, ...]) -> None:
    outcome = tidemill(*arguments)
    assert outcome.code == 2
    assert "Usage: tidemill" in outcome.err


def test_an_unforeseen_error_has_no_traceback(shop: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(self: ViewHandle) -> str:
        raise RuntimeError("the sky\nfell down")

    monkeypatch.setattr(ViewHandle, "explain", fall)
    outcome = shop("explain", "spend")
    assert outcome.code == 70
    assert "detail: RuntimeError: the sky\n" in outcome.err
    assert "in tidemill explain" in outcome.err and "hint: This is a fault in Tidemill." in outcome.err
    monkeypatch.setenv("TIDEMILL_DEBUG", "1")
    with pytest.raises(RuntimeError):
        shop("explain", "spend")


def test_the_version(tidemill: Tidemill) -> None:
    assert tidemill("--version").out.startswith("tidemill 0.")


def test_the_shop_is_the_same_for_the_same_seed() -> None:
    first, second = Shop(seed=3, customers=5, orders=9), Shop(seed=3, customers=5, orders=9)
    assert first.opening() == second.opening()
    assert [first.step(20) for _ in range(3)] == [second.step(20) for _ in range(3)]


def test_the_shop_never_takes_a_row_that_is_not_there() -> None:
    shop = Shop(seed=5, customers=4, orders=20)
    with open_warehouse(":memory:") as wh:
        wh.sql(SHOP_TABLES)
        wh.apply(shop.opening())
        for _ in range(20):
            wh.apply(shop.step(10))  # the warehouse would refuse it
        assert len(wh.table("customers")) == 4


def small_demo(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Outcome:
    monkeypatch.setattr(run_demo, "Shop", lambda seed: Shop(seed=seed, customers=5, orders=30))
    return tidemill("demo", "--seconds", "1", *arguments)


def test_the_demo_verifies_every_view(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome = small_demo(tidemill, monkeypatch, "--runtime", "native", "--folder", "shop")
    assert (outcome.code, outcome.err) == (0, "")
    assert "6 of 6 views equal their recomputation" in outcome.out
    assert re.search(r"refresh [\d,]+ ms, recompute [\d,]+ ms on native: .*; [\d,]+ ms on DuckDB: ", outcome.out)
    assert "\x1b" not in outcome.out  # plain lines in a pipe
    assert [json.loads(line)["name"] for line in tidemill("show", "-w", "shop", "--json").out.splitlines()][3:] == list(
        SHOP_VIEWS
    )
    again = small_demo(tidemill, monkeypatch, "--runtime", "native", "--folder", "shop")
    assert again.code == 1
    assert "needs a new folder" in again.err


def test_the_demo_says_that_duckdb_is_missing(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    outcome = small_demo(tidemill, monkeypatch, "--runtime", "native")
    assert outcome.code == 0
    assert outcome.out.count("DuckDB is not installed") == 1


def test_duckdb_recomputes_what_the_views_show() -> None:
    shop = Shop(seed=5, customers=8, orders=60)
    with open_warehouse(":memory:") as wh, duckdb.connect() as connection:
        wh.sql(SHOP_TABLES)
        wh.apply(shop.opening())
        recompute._by_duckdb(connection.cursor(), wh, SHOP_VIEWS)
        for name, query in SHOP_VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            assert len(wh.view(name)) == len(connection.execute(f"SELECT * FROM {name}").fetchall())


def test_the_demo_says_when_a_view_differs(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Verification("spend", 2, ZSet({("cid", 1): 1}), ZSet())
    monkeypatch.setattr(ViewHandle, "verify", lambda self, against=None: wrong)
    outcome = small_demo(tidemill, monkeypatch, "--runtime", "native")
    assert outcome.code == 1
    assert "DIFFERENT" in outcome.out


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_demo_runs_on_spark(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes come by a streaming query, those in bulk are the work of tasks, and who did what is shown."""
    monkeypatch.setattr(run_demo, "BULK_CHANGES", 100)
    monkeypatch.setattr(placement, "LEAST_TASK_WORK", 80)
    monkeypatch.setattr(choose_recomputation, "cheapest", tasks_if_possible)
    outcome = small_demo(tidemill, monkeypatch, "--runtime", "spark")
    assert outcome.code == 0, outcome.err
    assert "6 of 6 views equal their recomputation" in outcome.out
    assert "now the changes, by a streaming query" in outcome.out
    told = {
        found[1]: found
        for found in re.finditer(r"(load|small changes|bulk changes) +(\S+) +.* (\d+) +(\d+) +\S+ *\n", outcome.out)
    }
    assert list(told) == ["load", "small changes", "bulk changes"]
    jobs, tasks = int(told["bulk changes"][3]), int(told["bulk changes"][4])
    assert 1 <= jobs <= tasks


def test_a_cluster_is_of_spark(tidemill: Tidemill) -> None:
    refused = tidemill("demo", "--cluster", "--runtime", "native")
    assert refused.code != 0
    assert "a cluster is of Spark, not of runtime native" in refused.err


def damage_largest(folder: Path) -> Path:
    """Change a byte in the largest run."""
    file = max(folder.glob("maps/*/*.parquet"), key=lambda file: file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    return file


def test_check_and_repair(tidemill: Tidemill, tmp_path: Path) -> None:
    with open_warehouse(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING)")
        wh.sql("CREATE MATERIALIZED VIEW long AS SELECT id, CONCAT(name, name, name, name) AS text FROM t")
        wh.apply({"t": [(+1, (n, f"{n * 7919:x}")) for n in range(2000)]})
    sound = tidemill("check", "-w", "w", "--full")
    assert (sound.code, sound.err) == (0, "")
    assert "epoch 1, " in sound.out
    assert "checksums match" in sound.out
    assert "nothing to repair" in tidemill("repair", "-w", "w").out
    file = damage_largest(tmp_path / "w")
    found = tidemill("check", "-w", "w")
    assert found.code == 1
    assert f"maps/{file.parent.name}/{file.name} (rows): It does not match its checksum." in found.out
    assert 'It holds 2,000 rows of "long", of epoch 1. Views affected: long.' in found.out
    assert json.loads(tidemill("check", "-w", "w", "--json").out)["damages"][0]["views"] == ["long"]
    planned = tidemill("repair", "-w", "w", "--dry-run")
    assert planned.code == 1
    assert "would be rebuilt from its tables: long" in planned.out
    assert tidemill("show", "long", "-w", "w").code == 1
    done = tidemill("repair", "-w", "w")
    assert done.code == 0
    assert f"set aside: quarantine/maps/{file.parent.name}/{file.name}" in done.out
    assert tidemill("check", "-w", "w").code == 0
    assert tidemill("verify", "-w", "w", "-r", "native").code == 0
    assert "no warehouse" in tidemill("check", "-w", "absent").err


def test_spark_is_announced_before_it_starts(tidemill: Tidemill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for it under ``auto``, and it takes seconds: one line says why. Lookups by key do without."""
    monkeypatch.setattr(choose, "NATIVE_WORK", 20)
    monkeypatch.setattr(placement, "DRIVER_WORK", 20)

    def refuse() -> None:
        raise SetupError("there is no Spark here")

    monkeypatch.setattr(session, "local_session", refuse)
    tidemill("sql", "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    for start in (0, 15):
        rows = ", ".join(f"({i}, {i})" for i in range(start, start + 15))
        assert tidemill("sql", f"INSERT INTO t VALUES {rows}").code == 0
    found = tidemill("sql", "SELECT n FROM t WHERE id = 7; UPDATE t SET n = 1 WHERE id = 7")
    assert (found.code, found.err) == (0, "")
    stopped = tidemill("sql", "SELECT COUNT(*) FROM t")
    first, *_ = stopped.err.splitlines()
    assert first == "starting Spark: the change is better scanned than looked up: 32 of at most 20 rows"
    assert "there is no Spark here" in stopped.err
    assert "starting" not in tidemill("sql", "SELECT COUNT(*) FROM t", "--runtime", "spark").err
