"""Whoever reads a view in quarantine is told: every door is listed here, and a new one has to be."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill
from tidemill.engine.handles import TableHandle, ViewHandle, WarehouseSnapshot
from tidemill.engine.quarantine.notes import QuarantineWarning
from tidemill.engine.row_changes import PreparedText
from tidemill.engine.sessions.session import Session
from tidemill.engine.statements.execute import _STATEMENTS
from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model.errors import UnknownName
from tidemill.runtimes.spark.data_source.options import SourceOptions

Read = Callable[[tidemill.Warehouse], Any]

GUARDED = "WITH (on_error = 'quarantine')"
SET_UP = f"""
    CREATE TABLE t (id INT PRIMARY KEY, g INT, a INT, b INT);
    CREATE TABLE copy (g INT PRIMARY KEY, s BIGINT);
    CREATE MATERIALIZED VIEW v {GUARDED} AS SELECT g, SUM(a DIV b) AS s FROM t GROUP BY g;
    CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n, SUM(s) AS s FROM v;
    CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT g FROM v;
    CREATE MATERIALIZED VIEW whole {GUARDED} AS SELECT id, a DIV b AS q FROM t ORDER BY a DIV b, id LIMIT 5;
    CREATE MATERIALIZED VIEW fine AS SELECT id FROM t;
    INSERT INTO t VALUES (1, 1, 4, 2), (2, 2, 6, 3), (3, 3, 5, 5);
    INSERT INTO copy VALUES (7, 7);
"""


@pytest.fixture
def wh(tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    """Epoch 3 has a bad row, and so has the last one."""
    with tidemill.open(tmp_path / "wh", runtime="native") as opened:
        opened.sql(SET_UP)
        opened.sql("INSERT INTO t VALUES (4, 1, 4, 0)")
        yield opened


def told(read: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read()
    heard = [one for one in found if issubclass(one.category, QuarantineWarning)]
    assert all(one.filename == __file__ for one in heard)  # where Tidemill was called
    return [str(one.message) for one in heard]


def first(rows: Any) -> Any:
    return next(iter(rows), None)


OF_VIEWS: dict[str, Callable[[ViewHandle], Any]] = {
    "rows": lambda view: view.rows(),
    "arrow": lambda view: view.arrow(),
    "pandas": lambda view: view.pandas(),
    "polars": lambda view: view.polars(),
    "duckdb": lambda view: view.duckdb(),
    "__len__": len,
    "__arrow_c_stream__": pa.table,
    "_repr_html_": lambda view: view._repr_html_(),
    "changes": lambda view: view.changes(since=1),
    "batches": lambda view: view.batches(since=1),
    "net_changes": lambda view: view.net_changes(since=1),
    "verify": lambda view: view.verify(),
    "recompute": lambda view: view.recompute(),
}
OTHERS_OF_VIEWS = {
    "df": "it is made from arrow()",
    "lineage": "rows of tables, whose view is told of where the row comes from",
    "explain": "it says so in its text",
    "audit certificate certified partitions": "of views over sources and by partitions, which have no quarantine",
    "definition columns base_reads sizes staleness refresh FOR_EVERYBODY FOR_OWNERS": "no rows of it",
}

OF_WAREHOUSES: dict[str, Read] = {
    "sql": lambda wh: wh.sql("SELECT * FROM v"),
    "verify": lambda wh: wh.verify("v"),
    "subscribe": lambda wh: wh.subscribe("v", timeout=0),
    "prepare": lambda wh: wh.prepare("SELECT s FROM v WHERE g = ?").run([1]),
    "view": lambda wh: wh.view("v").rows(),
    "at": lambda wh: wh.at(wh.epoch).view("v").rows(),
    "session": lambda wh: wh.session().sql("SELECT * FROM v"),
}
OTHERS_OF_WAREHOUSES = {
    "table": "base rows",
    "apply apply_each upsert delete load feed replay replay_late stream sync": "changes of tables",
    "attach detach publish": "tested by themselves",
    "status": "it says so of each view",
    "advance_clock tick_clock clocks": "instants, and the epoch that they begin",
    "activity advance before_spark builds check_files close compact costs epoch flush follow forecast has_objects": "",
    "in_transaction plans positions refreshes register_aggregate register_function release schedule spark": "",
    "state_sizes statistics tables taken transaction troubles use_functions_of vacuum view_costs views SHOWN_AS": "",
    "FOR_EVERYBODY FOR_OWNERS cancel conditions is_owner name reads_all roles set_timeout timeout user": "of sessions",
}

STATEMENTS: dict[str, str] = {
    "Select": "SELECT * FROM v",
    "Insert": "INSERT INTO copy SELECT g, s FROM v",
    "Update": "UPDATE copy SET s = (SELECT MAX(s) FROM v)",
    "Delete": "DELETE FROM copy WHERE s IN (SELECT s FROM v)",
    "Merge": "MERGE INTO copy USING v ON copy.g = v.g WHEN NOT MATCHED THEN INSERT *",
    "CreateTableAs": "CREATE TABLE made AS SELECT * FROM v",
    "CreateView": "CREATE MATERIALIZED VIEW x AS SELECT s FROM v",
    "RefreshView": "REFRESH VIEW late",
    "SetVariables": "DECLARE found BIGINT; SET VAR found = (SELECT MAX(s) FROM v)",
    "ExecuteImmediate": "EXECUTE IMMEDIATE 'SELECT * FROM v'",
}
OTHER_STATEMENTS = {
    "BeginTransaction CommitTransaction RollbackTransaction": "what they commit was told when it was read",
    "SelectOql": "of classes; by the same function as SELECT",
    "ShowViews ExplainView DescribeTable": "it is one of their columns, lines or facts",
    "AlterView Rename": "the same rows as before",
    "ShowPartitions": "of views by partitions, which have no quarantine",
    "CreateFeed CreateSource CreateFunction CreateNamedQuery CreateTable CreateLakeTable": "",
    "DeclareVariable DescribeFunction DescribeHistory DropFunction DropVariable ShowFunctions ShowSchemas": "",
    "UseSchema AlterTable Analyze ChangeBuild Drop ExplainDefinition RefreshTable ReplayLate ReleaseErrors": "",
    "GrantPrivileges RevokePrivileges ShowGrants ShowBuilds ShowFeeds ShowCreate ShowPlans ShowRefreshes": "",
    "ShowCosts ShowState ShowSources ShowStatistics ShowTables ShowStages PromoteStage DropStage AlterSync": "",
    "ExplainQuery ShowClocks": "a plan, no rows; instants",
}


def words(others: dict[str, str]) -> set[str]:
    return {word for names in others for word in names.split()}


def public(*classes: type) -> set[str]:
    return {name for one in classes for name in dir(one) if not name.startswith("_")}


def test_every_door_is_listed_here() -> None:
    assert public(ViewHandle) == {name for name in OF_VIEWS if name[0] != "_"} | words(OTHERS_OF_VIEWS)
    assert public(ViewHandle) >= public(TableHandle)
    assert public(tidemill.Warehouse, Session) == OF_WAREHOUSES.keys() | words(OTHERS_OF_WAREHOUSES)
    assert public(WarehouseSnapshot) == {"sql", "table", "view", "FOR_EVERYBODY", "FOR_OWNERS"}
    assert public(PreparedText) == {"run", "find", "describe", "FOR_EVERYBODY", "FOR_OWNERS"}
    assert public(Subscription) == {"epoch", "ended", "on_ready", "close"}
    assert {kind.__name__ for kind in _STATEMENTS} == STATEMENTS.keys() | words(OTHER_STATEMENTS)


def test_views_say_so(wh: tidemill.Warehouse) -> None:
    for name in ("v", "w", "whole"):
        for method, read in OF_VIEWS.items():
            notes = told(lambda read=read, name=name: read(wh.view(name)))  # type: ignore[misc]
            assert len(notes) == 1 and f'view "{name}" ' in notes[0], (name, method, notes)
    assert "it is without 1 row that" in wh._engine.notes(["v"])[0]
    assert "it shows epoch 2, for 1 row cannot be computed" in wh._engine.notes(["whole"])[0]
    assert '"w" reads v, in quarantine: SELECT * FROM v_errors' in wh._engine.notes(["w"])[0]
    assert not told(lambda: [read(wh.view("fine")) for read in OF_VIEWS.values()])
    assert not told(lambda: wh.prepare("SELECT id FROM fine WHERE id = ?").run([1]))


def test_the_warehouse_says_so(wh: tidemill.Warehouse) -> None:
    for method, read in OF_WAREHOUSES.items():
        assert len(told(lambda read=read: read(wh))) == 1, method  # type: ignore[misc]
    find = wh.prepare("SELECT s FROM v WHERE g = ?")
    told(lambda: find.run([1]))
    assert find.find([1]) is None  # it has no notes, so it does not answer


@pytest.mark.parametrize("kind", STATEMENTS)
def test_statements_say_so(wh: tidemill.Warehouse, kind: str) -> None:
    results: list[Any] = []
    notes = told(lambda: results.append(wh.sql(STATEMENTS[kind])))
    assert len(notes) == 1 and "v_errors" in notes[0]
    assert results[0].notes == tuple(notes)


def test_verification_says_what_it_compares(wh: tidemill.Warehouse) -> None:
    found: list[Any] = []
    told(lambda: found.extend(wh.verify("v", "fine")))
    guarded, fine = found
    assert guarded.ok and "note: view" in str(guarded) and fine.notes == ()


def test_earlier_epochs_say_so(wh: tidemill.Warehouse) -> None:
    bad = wh.epoch
    wh.sql("UPDATE t SET b = 1 WHERE id = 4")
    healed = wh.epoch
    assert not told(lambda: wh.sql("SELECT * FROM v, w, whole"))
    for name in ("v", "w", "whole"):
        for epoch, expected in ((bad - 1, 0), (bad, 1), (healed, 0)):
            for read in (
                lambda name=name, epoch=epoch: wh.sql(f"SELECT * FROM {name} VERSION AS OF {epoch}"),
                lambda name=name, epoch=epoch: wh.at(epoch).sql(f"SELECT * FROM {name}"),
                lambda name=name, epoch=epoch: wh.at(epoch).view(name).rows(),
            ):
                assert len(told(read)) == expected, (name, epoch)
    found: list[Any] = []
    told(lambda: found.append(wh.at(bad).sql("SELECT * FROM whole")))
    (note,) = found[0].notes
    assert f"it shows epoch {bad - 1}" in note and f"whole_errors VERSION AS OF {bad}" in note
    assert len(wh.sql(f"SELECT * FROM whole_errors VERSION AS OF {bad}")) == 1


def test_a_deferred_view_goes_by_the_epoch_that_it_shows(wh: tidemill.Warehouse) -> None:
    assert not told(lambda: wh.view("late").rows())  # it was refreshed before
    told(lambda: wh.sql("REFRESH VIEW late"))
    wh.sql("UPDATE t SET b = 1 WHERE id = 4")
    assert not told(lambda: wh.view("v").rows()) and told(lambda: wh.view("late").rows())
    assert not told(lambda: wh.sql("REFRESH VIEW late"))


def test_subscribers_are_told_when_it_begins_and_once(wh: tidemill.Warehouse) -> None:
    assert len(told(lambda: wh.subscribe("v", since=1, timeout=0))) == 1
    told(lambda: wh.sql("DELETE FROM t WHERE id = 4"))
    with wh.subscribe("v", timeout=0) as subscription:
        assert not told(lambda: first(subscription))
        wh.apply({"t": [(1, (8, 1, 4, 0)), (1, (9, 2, 8, 2))]})
        batches: list[Any] = []
        assert len(told(lambda: batches.extend(subscription))) == 1
        assert len(batches) == 1 and "v_errors" in batches[0].notes[0]
        wh.sql("INSERT INTO t VALUES (10, 3, 4, 2)")
        assert not told(lambda: first(subscription))


def test_a_user_is_told_without_names_that_are_hidden(wh: tidemill.Warehouse) -> None:
    wh.sql("GRANT SELECT ON w TO ann")
    with wh.session(user="ann", roles=()) as session:
        for read in (lambda: session.view("w").rows(), lambda: session.sql("SELECT * FROM w")):
            (note,) = told(read)
            assert note.startswith('view "w" does not show all changes') and "v_errors" not in note
        with pytest.raises(UnknownName):
            assert not told(lambda: session.sql("SELECT * FROM v"))


def test_published_tables_are_told_of(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    options = f"WITH (on_error = 'quarantine', publish = 'delta', location = '{tmp_path / 'lake'}')"
    told(lambda: wh.sql(f"CREATE MATERIALIZED VIEW shown {options} AS SELECT id, a DIV b AS q FROM t"))
    assert len(told(wh.publish)) == 1
    wh.sql("DELETE FROM t WHERE id = 4")
    assert not told(wh.publish)


@pytest.mark.parametrize("changes", [False, True])
def test_workers_of_spark_are_told(wh: tidemill.Warehouse, tmp_path: Path, changes: bool) -> None:
    from tidemill.engine.data_source.source import TidemillSource

    given = {"warehouse": str(tmp_path / "wh"), "path": "v", "changes": str(changes).lower()}
    source = TidemillSource(given)
    assert SourceOptions.parse(given).relation == "v"
    read: Callable[[], Any] = (lambda: source.change_parts(0, None)) if changes else (lambda: source.row_parts(None))
    assert len(told(read)) == 1
