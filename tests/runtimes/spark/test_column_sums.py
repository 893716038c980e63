"""Triggers in tasks as queries over columns: their sums are those of generated Python, without Spark."""

from __future__ import annotations

import decimal
import random
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import Row
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model.errors import DuplicateKey
from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, DATE, DOUBLE, INT, STRING, Decimal, Field
from tidemill.program.reads import read_maps
from tidemill.program.sharding import why_not_sharded
from tidemill.program.stages import Stage
from tidemill.runtimes.native.executor import PythonExecutor
from tidemill.runtimes.spark.lookup import key_check, lookup_task
from tidemill.runtimes.spark.tasks import run
from tidemill.runtimes.spark.tasks.column_sums import why_not_in_columns
from tidemill.runtimes.spark.tasks.partial_sums import add_sums, unpack
from tidemill.runtimes.spark.tasks.work import Step, Work
from tidemill.storage.memory_store import MemoryStore

ORDERS = Table(
    "orders",
    (Field("id", INT), Field("customer", INT), Field("city", STRING), Field("at", DATE), Field("x", DOUBLE)),
    primary_key=("id",),
)
CUSTOMERS = Table("customers", (Field("id", INT), Field("city", STRING), Field("rank", BIGINT)))
LINES = Table("lines", (Field("order_id", INT), Field("price", Decimal(9, 2)), Field("n", BIGINT)))
TABLES = {table.name: table for table in (ORDERS, CUSTOMERS, LINES)}

JOINED = "orders o JOIN lines l ON l.order_id = o.id"

VIEWS = {
    "groups": f"SELECT o.city, SUM(l.price * l.n) AS s, COUNT(l.n) AS n FROM {JOINED} GROUP BY o.city",
    "no groups": f"SELECT SUM(l.n) AS s FROM {JOINED} WHERE l.price > 1",
    "rows": f"SELECT o.id, l.price, l.n + 1 AS n FROM {JOINED}",
    "three relations": f"SELECT c.rank, SUM(l.price) AS s FROM {JOINED} JOIN customers c ON c.id = o.customer "
    "GROUP BY c.rank",
    # The key of a lookup comes from two relations.
    "a key of two": f"SELECT c.rank, COUNT(*) AS n FROM {JOINED} JOIN customers c ON c.city = o.city AND c.rank = l.n "
    "GROUP BY c.rank",
    "no key": "SELECT c.city, MAX(l.price) AS m FROM customers c JOIN lines l ON l.n < c.rank GROUP BY c.city",
    "with itself": "SELECT a.city, COUNT(*) AS n FROM customers a JOIN customers b ON a.rank = b.id GROUP BY a.city",
}
NOT_IN_COLUMNS = {
    "with itself": "a change is joined with itself",
    "doubles": "DuckDB is not asked for SUM of DOUBLE",
}


def _stages(query: str, strategy: str = "delta") -> tuple[Stage, ...]:
    relation = translate(query, {table.name: table.fields for table in TABLES.values()}).relation
    return compile_view("v", relation, TABLES, strategy).stages


def _row(draw: random.Random, table: Table) -> Row:
    small = [None, 0, 1, 2, 3]
    values: dict[Any, list[Any]] = {
        STRING: [None, "", "Bern", "Oslo"],
        DATE: [None],
        DOUBLE: [0.5, float("inf")],
        Decimal(9, 2): [None, decimal.Decimal("1.50"), decimal.Decimal("-0.25"), decimal.Decimal("2.00")],
    }
    return tuple(draw.choice(values.get(f.type, small)) for f in table.fields)


def _change(draw: random.Random, table: Table, rows: int) -> ChangeSet:
    """Rows that come and go, some of them several times, and some in vain."""
    pairs = [(_row(draw, table), draw.choice((1, 1, 1, -1, 2, -3))) for _ in range(rows)]
    return ChangeSet.of([*pairs, (pairs[0][0], -pairs[0][1])], table.fields)


def _committed(draw: random.Random, stage: Stage, store: MemoryStore, epoch: int) -> None:
    """Commit an epoch that changes all inputs of a stage, and with them the maps that its triggers read."""
    changes = {name: _change(draw, TABLES[name], 40) for name in stage.inputs}
    for map_ in stage.maps:
        if map_.name in read_maps(stage):
            assert not map_.values, "what is committed has the columns of a map alone"
            changes[map_.name] = _change(draw, Table(map_.name, map_.keys), 40)
    store.commit(Epoch(epoch, changes))


def _work(draw: random.Random, stage: Stage, store: MemoryStore, parts: int) -> Work:
    """An epoch that changes all inputs of a stage."""
    changes, steps = [], []
    for relation in stage.inputs:
        steps += [Step(relation, len(changes), 0), Step(relation, len(changes))]
        changes.append(_change(draw, TABLES[relation], 30))
    relations = tuple((name, TABLES[name].fields) for name in stage.inputs)
    files = {name: store.runs(name) for name in (*stage.inputs, *(map_.name for map_ in stage.maps))}
    return Work(store.epoch + 1, (stage,), relations, files, tuple(steps), tuple(changes), parts, 2, column_rows=0)


def _sums(work: Work) -> dict[str, dict[Row, Any]]:
    """The sums of all parts, without those that add nothing."""
    sums: dict[str, dict[Row, Any]] = {}
    for part in range(work.parts):
        for payload in run.sum_part(work, part):
            assert payload.stage != run.FAULT
            add_sums(sums, unpack(payload.content, work.stages[0]))
    return {
        target: {key: amounts for key, amounts in added.items() if (any(amounts) if _many(amounts) else amounts)}
        for target, added in sums.items()
    }


def _many(amounts: Any) -> bool:
    return isinstance(amounts, list)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(
    ("view", "strategy"),
    [
        *((view, "delta") for view in VIEWS if view not in NOT_IN_COLUMNS),
        ("rows", "joingraph"),
        ("a key of two", "joingraph"),
    ],
)
def test_queries_add_what_generated_python_adds(
    view: str, strategy: str, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join graph reads maps that its triggers add to: those for the second table see the change of the first."""
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", 1 if mapped else 1 << 30)
    draw = random.Random(f"{view} {mapped}")
    (stage, *_) = _stages(VIEWS[view], strategy)
    assert why_not_in_columns(stage) == "" == why_not_sharded(stage)
    assert bool(read_maps(stage)) == (strategy == "joingraph")
    with closing(MemoryStore()) as store:
        for epoch in (1, 2):
            _committed(draw, stage, store, epoch)
        work = _work(draw, stage, store, parts=2)
        expected = _sums(replace(work, column_rows=1 << 30))
        monkeypatch.setattr(PythonExecutor, "planned_sums", None)  # nothing is left to Python
        assert _sums(work) == expected
        assert expected and all(expected.values())


def test_workers_without_duckdb_run_generated_python(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "import sys; sys.modules['duckdb'] = None; import tidemill.runtimes.spark.task_runtime"
    subprocess.run([sys.executable, "-c", hidden], check=True)
    draw = random.Random(3)
    (stage, *_) = _stages(VIEWS["rows"], "joingraph")
    with closing(MemoryStore()) as store:
        _committed(draw, stage, store, 1)
        work = _work(draw, stage, store, parts=2)
        expected = _sums(work)
        monkeypatch.setitem(sys.modules, "duckdb", None)
        assert _sums(work) == expected and all(expected.values())


def test_what_has_no_query_is_generated_python() -> None:
    doubles = {"doubles": "SELECT city, SUM(x) AS s FROM orders GROUP BY city"}
    found = {name: why_not_in_columns(_stages(query)[0]) for name, query in (VIEWS | doubles).items()}
    assert {name: reason for name, reason in found.items() if reason} == NOT_IN_COLUMNS


def test_what_duckdb_refuses_is_left_to_generated_python() -> None:
    """The sums of a part may exceed a type that the sums of all parts fit: Python's do not."""
    (stage,) = _stages("SELECT city, SUM(rank) AS s FROM customers GROUP BY city")
    most = (1 << 63) - 1
    change = ChangeSet.of([((1, "Bern", most), 1), ((2, "Bern", most), 1), ((3, "Bern", most), -1)], CUSTOMERS.fields)
    with closing(MemoryStore()) as store:
        steps = (Step("customers", 0, 0),)
        relations = (("customers", CUSTOMERS.fields),)
        work = Work(1, (stage,), relations, {"customers": store.runs("customers")}, steps, (change,), 2, 1, 0)
        (sums,) = _sums(work).values()
    assert [amounts[0] for amounts in sums.values()] == [1]
    assert most in sums[("Bern",)]


def test_a_check_reads_what_a_change_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the files of a run are mapped the run itself is not read, however many rows it has."""
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", 1)
    rows = [(i, i % 7, "Bern", None, 0.5) for i in range(500)]
    change = ChangeSet.of([(rows[3], -1), (rows[4], 1), ((600, *rows[5][1:]), 1)], ORDERS.fields)
    with closing(MemoryStore()) as store:
        store.commit(Epoch(1, {"orders": ChangeSet.of([(row, 1) for row in rows], ORDERS.fields)}))
        for _ in range(2):
            with pytest.raises(DuplicateKey, match="id = 4"):
                key_check.check_by_lookup(ORDERS, change, store.runs("orders"))
            monkeypatch.setattr(lookup_task, "_read", None)


def test_keys_that_statistics_exclude_need_no_mapped_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """New keys follow those that are stored: nothing is made for them, and none of them is refused."""
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", 1)
    with closing(MemoryStore()) as store:
        store.commit(Epoch(1, {"orders": ChangeSet.of([((i, 0, "", None, 0.5), 1) for i in range(9)], ORDERS.fields)}))
        (run_file,) = store.runs("orders")
        for first, is_new in ((9, True), (8, False)):
            change = ChangeSet.of([((i, 0, "", None, 0.5), 1) for i in range(first, 12)], ORDERS.fields)
            assert key_check.only_new_keys(ORDERS, change, [run_file]) == is_new
            assert any(run_file.prefix.parent.glob(f"{run_file.prefix.name}.*.index")) == (not is_new)
