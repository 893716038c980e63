"""Stages: views that live beside the present ones, until they take their place or are given up."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import tidemill
from tests import forked_children
from tests.evolution.projects import write_project
from tests.interruptions import Lines
from tidemill.engine.projects.carry_out import carried_out
from tidemill.engine.projects.project import read_project
from tidemill.engine.projects.stages import make_stage
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.statements.execute import execute
from tidemill.model import errors
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

PROJECT = {
    "tables": "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT);",
    "twice": "CREATE FUNCTION twice(x INT) RETURNS INT RETURN 2 * x;",
    "paid": "CREATE VIEW paid AS SELECT customer, twice(amount) AS d FROM orders WHERE amount > 0;",
    "spend": "CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(d) AS total FROM paid GROUP BY customer;",
    "large": """
      CREATE MATERIALIZED VIEW large AS
        SELECT spend.customer, total, id FROM spend JOIN orders ON spend.customer = orders.customer WHERE total > 20;
    """,
    "best": "CREATE MATERIALIZED VIEW best AS SELECT MAX(total) AS most FROM large;",
    "many": "CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders;",
}
OTHER = {
    "twice": "CREATE FUNCTION twice(x INT) RETURNS INT RETURN 3 * x;",
    "fresh": "CREATE MATERIALIZED VIEW fresh AS SELECT MIN(total) AS low FROM spend;",
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A project that is deployed, with some rows, and has changed since."""
    folder = write_project(tmp_path / "models", PROJECT)
    tidemill.deploy(folder, tmp_path / "w", runtime="native")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.apply({"orders": [(+1, (i, "abc"[i % 3], i)) for i in range(12)]})
    return write_project(folder, PROJECT | OTHER)


@pytest.fixture
def wh(models: Path, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    """The warehouse, with the new version as stage blue."""
    made = tidemill.deploy(models, tmp_path / "w", stage="Blue", runtime="native")
    assert str(made).endswith("stage blue has blue__spend, blue__large, blue__best, blue__fresh; epoch 3")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as opened:
        yield opened


def is_right(wh: tidemill.Warehouse) -> None:
    for one in wh.verify(*wh._engine.catalog.views, against="evaluator"):
        assert one.ok, one


def test_both_versions_follow_every_epoch_and_one_is_hidden(wh: tidemill.Warehouse) -> None:
    wh.apply({"orders": [(+1, (20, "a", 100)), (-1, (3, "a", 3))]})
    assert (wh.view("best").rows(), wh.view("blue__best").rows()) == ([(230,)], [(345,)])
    assert wh.sql("SELECT low FROM blue__fresh").rows() == [(66,)]
    is_right(wh)
    assert wh.views() == ("spend", "large", "best", "many")
    listed = (
        "SELECT table_name FROM information_schema.tables UNION ALL SELECT table_name FROM information_schema.views"
    )
    shown = [str(wh.sql(text).rows()) for text in ("SHOW VIEWS", "SHOW STATISTICS", "SHOW PLANS", listed)]
    assert not [text for text in shown if "blue" in text]
    assert {one.name for one in wh.status().views} == {*wh.views()}
    views = "blue__spend, blue__large, blue__best, blue__fresh"
    assert wh.sql("SHOW STAGES").rows() == [("blue", 3, views, None)]


def test_a_promotion_takes_what_the_stage_has(wh: tidemill.Warehouse, models: Path, tmp_path: Path) -> None:
    wh.apply({"orders": [(+1, (20, "a", 100))]})
    epoch, spend = wh.epoch, wh.view("spend").rows()

    def computed(*_: object) -> None:
        raise AssertionError("a view was computed again")

    with (
        patch.object(ViewFiller, "load_beside", computed),
        patch.object(ViewFiller, "fill", computed),
        wh.subscribe("best", timeout=0) as heard,
    ):
        told = "replace twice, rebuild spend, rebuild large, rebuild best, create fresh"
        assert wh.sql("PROMOTE STAGE blue").message == f"promoted stage blue: {told}"
        assert [(batch.epoch, sorted(batch)) for batch in heard] == [(epoch + 1, [(-1, (236,)), (1, (354,))])]
    assert wh.views() == ("spend", "large", "best", "many", "fresh") and wh.sql("SHOW STAGES").rows() == []
    assert sorted(wh.at(epoch).view("spend").rows()) == sorted(spend)
    assert wh.at(epoch).view("fresh").rows() == wh.view("fresh").rows()  # its history began in the stage
    is_right(wh)
    wh.apply({"orders": [(+1, (21, "b", 500)), (-1, (4, "b", 4))]})
    assert wh.view("best").rows() == [(1554,)]
    is_right(wh)
    wh.close()
    assert not tidemill.plan(models, tmp_path / "w")
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert again.view("best").rows() == [(1554,)]
        is_right(again)


def test_a_stage_that_is_given_up_leaves_nothing(wh: tidemill.Warehouse) -> None:
    before = {name: wh.view(name).rows() for name in wh.views()}
    wh.sql("DROP STAGE blue; DROP STAGE IF EXISTS blue")
    assert {name: wh.view(name).rows() for name in wh._engine.catalog.views} == before
    assert [*wh._engine.catalog.named.queries] == ["paid"] and [*wh._engine.catalog.named.functions] == ["twice"]
    with pytest.raises(errors.UnknownName, match='no stage "blue"'):
        wh.sql("DROP STAGE blue")
    is_right(wh)


def test_it_is_compared_and_promoted_from_outside(models: Path, tmp_path: Path) -> None:
    shop = tmp_path / "w"
    tidemill.deploy(models, shop, stage="blue", runtime="native")
    with pytest.raises(errors.NameTaken, match='stage "blue" exists'):
        tidemill.deploy(models, shop, stage="blue", runtime="native")
    found = tidemill.diff(shop, f"{shop}@blue")
    assert [one.name for one in found.relations] == ["spend", "large", "best", "fresh"] and found.same == 2
    assert str(tidemill.diff(shop, f"{shop}@blue", "best")).startswith("best: 1 rows removed, 1 rows added\n  - (52,)")
    with pytest.raises(errors.UnknownName, match='no stage "green"'):
        tidemill.diff(shop, f"{shop}@green")
    assert "stage blue waits to be promoted" in str(tidemill.plan(models, shop))
    tidemill.clone(shop, tmp_path / "c")
    tidemill.drop_stage(tmp_path / "c", "blue")
    assert tidemill.plan(models, tmp_path / "c").stages == ()
    assert tidemill.promote(shop, "blue", runtime="native").epoch == 4
    assert not tidemill.plan(models, shop)
    assert [one.name for one in tidemill.diff(tmp_path / "c", shop).relations] == ["spend", "large", "best", "fresh"]


def test_two_stages_at_once(wh: tidemill.Warehouse, models: Path, tmp_path: Path) -> None:
    write_project(models, PROJECT | {"many": "CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) + 1 AS n FROM orders;"})
    wh.close()
    tidemill.deploy(models, tmp_path / "w", stage="green", runtime="native")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as again:
        again.sql("PROMOTE STAGE green")
        assert again.view("many").rows() == [(13,)]
        again.sql("PROMOTE STAGE blue")
        assert again.view("best").rows() == [(78,)] and again.view("many").rows() == [(13,)]
        is_right(again)


def test_its_views_change_with_it_alone(wh: tidemill.Warehouse) -> None:
    for statement in (
        "DROP VIEW blue__best",
        "ALTER VIEW blue__best AS SELECT 1 AS most",
        "ALTER VIEW blue__best RENAME TO mine",
        "CREATE OR REPLACE FUNCTION blue__twice(x INT) RETURNS INT RETURN x",
        "CREATE VIEW mine AS SELECT * FROM blue__best",
        "CREATE MATERIALIZED VIEW mine AS SELECT blue__twice(n) AS n FROM many",
    ):
        with pytest.raises(errors.Unsupported, match='belongs to stage "blue"'):
            wh.sql(statement)


def test_definitions_that_change_meanwhile(wh: tidemill.Warehouse, models: Path, tmp_path: Path) -> None:
    wh.sql("ALTER TABLE orders ADD COLUMN note STRING")
    wh.sql("ALTER TABLE orders ALTER COLUMN amount TYPE BIGINT")
    wh.sql("CREATE MATERIALIZED VIEW mine AS SELECT COUNT(*) AS n FROM large")
    is_right(wh)
    wh.sql("ALTER VIEW best AS SELECT MIN(total) AS most FROM large")
    with pytest.raises(errors.Conflict, match="best was defined anew"):
        wh.sql("PROMOTE STAGE blue")
    wh.sql("ALTER VIEW best AS SELECT MAX(total) AS most FROM large; PROMOTE STAGE blue")
    assert wh.view("best").rows() == [(78,)] and wh.view("mine").rows() == [(12,)]
    is_right(wh)


def test_a_deployment_beside_a_stage(wh: tidemill.Warehouse, models: Path, tmp_path: Path) -> None:
    wh.sql("CREATE MATERIALIZED VIEW base AS SELECT id, customer, amount FROM orders")
    wh.close()
    base = "CREATE MATERIALIZED VIEW base AS SELECT id, customer, {} FROM orders;"
    over = {
        "spend": "CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total FROM base GROUP BY customer;"
    }
    write_project(models, PROJECT | over | {"base": base.format("amount")})
    tidemill.deploy(models, tmp_path / "w", stage="green", runtime="native")
    write_project(models, PROJECT | {"base": base.format("amount + 1 AS amount")})
    tidemill.deploy(models, tmp_path / "w", runtime="native")  # green__spend gets the difference
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as again:
        assert sorted(again.view("green__spend").rows()) == [("a", 22), ("b", 26), ("c", 30)]
        is_right(again)
    write_project(models, PROJECT | {"base": base.format("CAST(amount AS STRING) AS amount")})
    with pytest.raises(errors.Unsupported, match='stage "green" cannot go on'):
        tidemill.deploy(models, tmp_path / "w", runtime="native")


REFUSED = {
    "orders": "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount BIGINT);",
    "clicks": "CREATE STREAM clicks (a INT); CREATE MATERIALIZED VIEW seen AS SELECT MAX(a) AS n FROM clicks;",
    "held": "CREATE MATERIALIZED VIEW held WITH (on_error = 'quarantine') AS SELECT 1 DIV amount AS a FROM orders;",
    "read": "CREATE MATERIALIZED VIEW read WITH (serve = 'read', strategy = 'joingraph') AS SELECT id FROM orders;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_stage_cannot_have(models: Path, tmp_path: Path, name: str) -> None:
    write_project(models, {**PROJECT, "tables" if name == "orders" else name: REFUSED[name]})
    with pytest.raises(errors.Unsupported, match="in a stage"):
        tidemill.deploy(models, tmp_path / "w", stage="blue", runtime="native")
    for stage in ("1", "a b", "x/../y"):
        with pytest.raises(errors.Unsupported, match="cannot be called"):
            tidemill.deploy(models, tmp_path / "w", stage=stage, runtime="native")
    with tidemill.open(tmp_path / "w", runtime="native", read_only=True) as wh:
        assert wh.epoch == 2 and wh.sql("SHOW STAGES").rows() == [] and "clicks" not in wh.tables()


def test_new_tables_columns_strategies_and_late_views(models: Path, tmp_path: Path) -> None:
    write_project(
        models,
        {
            **PROJECT,
            "tables": "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT, vip INT DEFAULT 1);",
            "codes": "CREATE TABLE codes (customer STRING, code INT);",
            "spend": PROJECT["spend"].replace("VIEW spend", "VIEW spend WITH (strategy = 'delta')"),
            "many": "CREATE MATERIALIZED VIEW many AS SELECT COUNT(vip) + COUNT(code) AS n FROM orders, codes;",
            "late": "CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT MAX(n) AS n FROM many;",
            "slow": "CREATE MATERIALIZED VIEW slow WITH (build = 'background') AS SELECT MIN(id) AS n FROM orders;",
        },
    )
    tidemill.deploy(models, tmp_path / "w", stage="blue", runtime="native")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        assert wh.view("many").rows() == [(12,)] and wh.view("blue__slow").rows() == [(0,)]
        wh.sql("INSERT INTO codes VALUES ('a', 1)")
        wh.sql("PROMOTE STAGE blue")
        assert wh.view("many").rows() == [(24,)] and wh.view("late").rows() == [(24,)]
        is_right(wh)
    assert not tidemill.plan(models, tmp_path / "w")


@pytest.mark.parametrize(
    ("death", "promoted"), [("before-swap:2", False), ("before-joint", False), ("after-joint", True)]
)
def test_killed_while_it_is_promoted(models: Path, tmp_path: Path, death: str, promoted: bool) -> None:
    shop = tmp_path / "w"
    tidemill.deploy(models, shop, stage="blue", runtime="native")
    died = forked_children.run(
        "tests.evolution.deploying", shop, "PROMOTE STAGE blue", timeout=60, **{FAULT_VARIABLE: death}
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    with tidemill.open(shop, runtime="native", backend="python") as wh:
        assert wh.view("best").rows() == [(78 if promoted else 52,)]
        is_right(wh)
        if not promoted:
            wh.sql("PROMOTE STAGE blue")
        wh.apply({"orders": [(+1, (20, "c", 100))]})
        assert wh.view("best").rows() == [(378,)]
        is_right(wh)
    assert not tidemill.plan(models, shop)


def interrupted(folder: Path, place: Path | str, at: int | None) -> int:
    """Promote a stage, interrupted at a line; returns how many lines that takes."""
    with tidemill.open(place, runtime="native", backend="python") as wh:
        carried_out(wh._engine, read_project(write_project(folder, PROJECT)), execute, drop=True, progress=None)
        wh.apply({"orders": [(+1, (i, "abc"[i % 3], i)) for i in range(12)]})
        new = read_project(write_project(folder, PROJECT | OTHER))
        make_stage(wh._engine, new, "blue", execute, drop=True, progress=None)
        epoch, lines = wh.epoch, Lines(at, KeyboardInterrupt)
        try:
            with lines:
                wh.sql("PROMOTE STAGE blue")
        except KeyboardInterrupt:
            assert lines.fired
        assert (wh.epoch, wh.view("best").rows(), len(wh.sql("SHOW STAGES").rows())) in (
            (epoch, [(52,)], 1),
            (epoch + 1, [(78,)], 0),
        ), lines.place
        is_right(wh)
        wh.apply({"orders": [(+1, (20, "c", 100))]})
        is_right(wh)
        return lines.count


def test_an_exception_at_some_lines(tmp_path: Path) -> None:
    count = interrupted(tmp_path / "models", ":memory:", None)
    for turn in range(1, 4):
        at = random.randrange(count * (turn - 1) // 3, count * turn // 3) + 1
        interrupted(tmp_path / "models", ":memory:" if turn % 2 else tmp_path / "w", at)


@pytest.mark.long
def test_an_exception_at_many_lines(tmp_path: Path) -> None:
    count = interrupted(tmp_path / "models", ":memory:", None)
    for at in range(1, count, max(count // 200, 1)):
        interrupted(tmp_path / "models", tmp_path / f"{at}", at)
