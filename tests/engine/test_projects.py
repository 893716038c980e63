"""Projects: a folder of SQL files is planned, tried on a clone, deployed, and compared with a warehouse."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests import forked_children
from tests.faults import fault_points
from tests.storage.samples import child_environment
from tidemill.engine.projects.deploy import DeployReport
from tidemill.engine.projects.steps import DeployPlan
from tidemill.model import errors
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

FILES = {
    "a_views.sql": """
        CREATE MATERIALIZED VIEW top AS SELECT MAX(total) AS most FROM spend;
        CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(twice(amount)) AS total FROM paid GROUP BY customer;
    """,
    "b/tables.sql": "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT);",
    "c.sql": """
        CREATE VIEW paid AS SELECT * FROM orders WHERE amount > 0;
        CREATE FUNCTION twice(x INT) RETURNS INT RETURN 2 * x;
    """,
}


SLOW = "CREATE MATERIALIZED VIEW slow WITH (build = 'background')"
OVER_SLOW = "CREATE MATERIALIZED VIEW over_slow AS SELECT MAX(n) AS n FROM slow"


def write(folder: Path, **changed: str) -> Path:
    for name, text in {**FILES, **{key.replace("__", "/") + ".sql": text for key, text in changed.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def deploy(folder: Path, tmp_path: Path, **more: Any) -> DeployReport:
    return tidemill.deploy(folder, tmp_path / "w", runtime="native", **more)


def actions(plan: DeployPlan) -> list[tuple[str, str]]:
    return [(step.action, step.name) for step in plan.steps]


def opened(tmp_path: Path) -> tidemill.Warehouse:
    return tidemill.open(tmp_path / "w", runtime="native", backend="python")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project that is deployed, with some rows."""
    folder = write(tmp_path / "p")
    deploy(folder, tmp_path)
    with opened(tmp_path) as wh:
        wh.apply({"orders": [(+1, (1, "ann", 5)), (+1, (2, "bob", 7)), (+1, (3, "ann", -1))]})
    return folder


def test_definitions_are_made_in_the_order_of_their_use(tmp_path: Path) -> None:
    folder = write(tmp_path / "p")
    planned = tidemill.plan(folder, tmp_path / "w")
    names = [name for _, name in actions(planned)]
    assert sorted(names) == ["orders", "paid", "spend", "top", "twice"]
    assert names.index("orders") < names.index("paid") < names.index("spend") < names.index("top")
    assert not (tmp_path / "w").exists()
    assert deploy(folder, tmp_path).done == tuple(names)
    again = tidemill.plan(folder, tmp_path / "w")
    assert not again and again.unchanged == 5 and "has what the project says" in str(again)


def test_blanks_comments_and_files_do_not_count(shop: Path, tmp_path: Path) -> None:
    write(
        shop, a_views="", d=FILES["a_views.sql"].replace("SELECT", "select  /* it */").replace("AS total", "\nas total")
    )
    assert not tidemill.plan(shop, tmp_path / "w")


def test_a_changed_view_a_new_one_one_that_is_gone_and_a_new_column(shop: Path, tmp_path: Path) -> None:
    write(
        shop,
        a_views="""
          CREATE MATERIALIZED VIEW spend WITH (strategy = 'delta') AS
            SELECT customer, SUM(twice(amount)) AS total FROM paid GROUP BY customer;
          CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders;
        """,
        b__tables="CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT, note STRING);",
    )
    planned = tidemill.plan(shop, tmp_path / "w")
    assert dict(map(reversed, actions(planned))) == {  # type: ignore[arg-type]
        "top": "drop", "orders": "alter", "spend": "alter", "many": "create",
    }  # fmt: skip
    many = next(step for step in planned.steps if step.name == "many")
    assert many.rows == 3
    deploy(shop, tmp_path)
    with opened(tmp_path) as wh:
        assert wh.views() == ("spend", "many") and wh.view("many").rows() == [(3,)]
        assert wh.table("orders").definition.fields[-1].name == "note"
        assert all(wh.verify())
    assert not tidemill.plan(shop, tmp_path / "w")


def test_views_over_a_changed_definition_follow_it(shop: Path, tmp_path: Path) -> None:
    write(
        shop, c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x INT) RETURNS INT RETURN x + x + x;"
    )
    tried = deploy(shop, tmp_path, dry_run=True)
    assert str(tried.changes) == (
        "spend: 2 rows removed, 2 rows added\n  - ('ann', 10)\n  - ('bob', 14)\n  + ('ann', 12)\n  + ('bob', 21)\n"
        "top: 1 rows removed, 1 rows added\n  - (14,)\n  + (21,)\n1 tables and views are equal"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"w", "p"}
    with opened(tmp_path) as wh:
        assert wh.view("top").rows() == [(14,)]
    assert sorted(actions(deploy(shop, tmp_path).plan)) == [
        ("rebuild", "spend"),
        ("replace", "paid"),
        ("replace", "twice"),
    ]
    with opened(tmp_path) as wh:
        assert wh.view("top").rows() == [(21,)] and all(wh.verify())


def test_views_that_read_a_changed_view_follow_it(shop: Path, tmp_path: Path) -> None:
    write(shop, a_views=FILES["a_views.sql"].replace("SUM(twice", "MIN(twice"))
    assert tidemill.diff(shop, tmp_path / "w", "top")
    deploy(shop, tmp_path)
    assert not tidemill.diff(shop, tmp_path / "w") and not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert sorted(wh.view("spend").rows()) == [("ann", 10), ("bob", 14)] and all(wh.verify())


def test_rows_of_two_epochs_and_of_two_warehouses(shop: Path, tmp_path: Path) -> None:
    tidemill.clone(tmp_path / "w", tmp_path / "c")
    with opened(tmp_path) as wh:
        wh.apply({"orders": [(-1, (2, "bob", 7))]})
        epoch = wh.epoch
    found = tidemill.diff(f"{tmp_path / 'w'}@{epoch - 1}", tmp_path / "w")
    assert [(one.name, one.removed, one.added) for one in found.relations] == [
        ("orders", 1, 0), ("spend", 1, 0), ("top", 1, 1),
    ]  # fmt: skip
    assert [str(one) for one in tidemill.diff(tmp_path / "w", tmp_path / "c", "spend").relations] == [
        "spend: 0 rows removed, 1 rows added\n  + ('bob', 14)"
    ]
    assert not tidemill.diff(tmp_path / "w", f"{tmp_path / 'w'}@{epoch}")
    with pytest.raises(errors.EpochGone):
        tidemill.diff(f"{tmp_path / 'w'}@99", tmp_path / "w")


def test_faults_are_found_before_anything_is_done(shop: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as wh:
        before = wh.epoch, wh.views()
    for name, text, kind, said in (
        ("x", "CREATE MATERIALIZED VIEW x AS SELECT nothing FROM orders", errors.UnknownName, "nothing"),
        ("x", "CREATE VIEW y AS SELECT * FROM z; CREATE VIEW z AS SELECT * FROM y", errors.Unsupported, "circle"),
        ("x", "INSERT INTO orders VALUES (1, 'a', 1)", errors.Unsupported, "this is INSERT"),
        ("x", "CREATE TABLE spend (a INT)", errors.NameTaken, "twice"),
        ("x", f"{SLOW} AS SELECT COUNT(*) AS n FROM orders; {OVER_SLOW}", errors.Unsupported, "in the background"),
        ("x", "CREATE TABLE paid (a INT)", errors.NameTaken, "twice"),
    ):
        write(shop, **{name: f"CREATE TABLE fresh (a INT); {text}"})
        with pytest.raises(kind, match=said):
            deploy(shop, tmp_path)
    (shop / "x.sql").unlink()
    for columns, kind, said in (
        ("id INT PRIMARY KEY, amount INT", errors.Unsupported, "another one in the warehouse"),
        ("id INT PRIMARY KEY, who STRING, amount INT", errors.Unsupported, "another one in the warehouse"),
        ("id INT PRIMARY KEY, customer STRING, amount SMALLINT", errors.TypeMismatch, "cannot become SMALLINT"),
    ):
        write(shop, b__tables=f"CREATE TABLE orders ({columns})")
        with pytest.raises(kind, match=said) as refused:
            deploy(shop, tmp_path)
        assert refused.value.where is not None and refused.value.where.name == "b/tables.sql"
    with opened(tmp_path) as wh:
        assert (wh.epoch, wh.views()) == before and "fresh" not in wh.tables()


OLD, NEW = (False, 2), (True, 3)
"""Whether the new definitions are there, and the epoch."""

DEATHS = {
    **{f"during-deploy:{passing}": OLD for passing in (1, 4)},
    "between-files:2": OLD,
    "before-joint": OLD,
    "before-manifest": OLD,
    "after-manifest": NEW,
    "after-joint": NEW,
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_deployment_that_is_killed_has_happened_or_not(shop: Path, tmp_path: Path, death: str) -> None:
    with opened(tmp_path) as wh:
        wh.compact()
        before = {name: wh.view(name).rows() for name in wh.views()}
        assert wh.epoch == OLD[1]
    write(
        shop,
        b__tables="CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount BIGINT, note STRING);",
        c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x;",
        d="CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders;",
    )
    died = forked_children.run("tests.evolution.deploying", tmp_path / "w", shop, timeout=60, **{FAULT_VARIABLE: death})
    assert died.returncode == -signal.SIGKILL, died.stderr
    is_new, epoch = DEATHS[death]
    assert bool(tidemill.plan(shop, tmp_path / "w")) != is_new
    with opened(tmp_path) as wh:
        assert wh.epoch == epoch and all(wh.verify())
        assert is_new or {name: wh.view(name).rows() for name in wh.views()} == before
    deploy(shop, tmp_path)
    assert not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert wh.epoch == NEW[1] and wh.view("top").rows() == [(7,)] and wh.view("many").rows() == [(3,)]
        assert all(wh.verify())


def test_every_point_is_tried() -> None:
    points = {death.partition(":")[0] for death in DEATHS}
    assert points > {point for point in fault_points("engine") if "joint" in point or "deploy" in point}


def test_the_command_line_tells_whether_something_differs(shop: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tidemill", *arguments, "-w", str(tmp_path / "w")]
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert run("plan", str(shop), "--check")[0] == 0
    write(shop, d="CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders")
    code, said = run("plan", str(shop), "--check")
    assert code == 1 and said.startswith("create   materialized view many  (reads 3 rows")


def test_a_view_with_another_strategy_over_one_that_is_computed_again(shop: Path, tmp_path: Path) -> None:
    write(
        shop,
        a_views=FILES["a_views.sql"].replace("VIEW top AS", "VIEW top WITH (strategy = 'delta') AS"),
        c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x INT) RETURNS INT RETURN x;",
    )
    assert ("alter", "top") in actions(deploy(shop, tmp_path).plan)
    assert not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert wh.view("top").rows() == [(7,)]


def planned(models: Path, tmp_path: Path) -> dict[str, str]:
    """What a plan does with views."""
    return {step.name: step.action for step in tidemill.plan(models, tmp_path / "w").steps if "view" in step.kind}


CHAIN = """
    CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total{} FROM orders GROUP BY customer;
    CREATE MATERIALIZED VIEW large AS SELECT {} FROM spend WHERE total > 5;
    CREATE MATERIALIZED VIEW best AS SELECT MAX(total) AS most FROM large;
    CREATE MATERIALIZED VIEW every AS SELECT * FROM spend;
"""


@pytest.fixture
def chain(shop: Path, tmp_path: Path) -> Path:
    """Views over views."""
    write(shop, a_views=CHAIN.format("", "customer, total"))
    deploy(shop, tmp_path)
    return shop


def test_a_column_in_the_middle_of_a_chain_touches_only_those_who_show_it(chain: Path, tmp_path: Path) -> None:
    write(chain, a_views=CHAIN.format(", COUNT(*) AS n", "customer, total"))
    assert planned(chain, tmp_path) == {"spend": "replace", "every": "rebuild"}
    with opened(tmp_path) as wh:
        epoch, rows = wh.epoch, wh.view("every").rows()
    deploy(chain, tmp_path)
    with opened(tmp_path) as wh:
        assert wh.epoch == epoch + 1
        assert sorted(wh.view("every").rows()) == [("ann", 4, 2), ("bob", 7, 1)]
        assert sorted(wh.at(epoch).view("every").rows()) == sorted(rows)
        assert wh.view("best").changes(since=epoch) == [] and all(wh.verify())
        wh.apply({"orders": [(+1, (4, "ann", 90))]})
        assert wh.view("best").rows() == [(94,)] and all(wh.verify())
    assert not tidemill.plan(chain, tmp_path / "w")


def test_a_column_that_goes_with_those_who_read_it(chain: Path, tmp_path: Path) -> None:
    texts = CHAIN.format("", "customer, total")
    renamed = texts.replace("AS total FROM", "AS sum FROM").replace(
        "customer, total FROM", "customer, sum AS total FROM"
    )
    write(chain, a_views=renamed.replace("total > 5", "sum > 3"))
    assert planned(chain, tmp_path) == {"spend": "replace", "large": "replace", "every": "rebuild"}
    deploy(chain, tmp_path)
    with opened(tmp_path) as wh:
        assert [f.name for f in wh.view("every").fields] == ["customer", "sum"]
        assert sorted(wh.view("large").rows()) == [("ann", 4), ("bob", 7)] and all(wh.verify())
    assert not tidemill.plan(chain, tmp_path / "w")


def test_views_that_read_each_other_the_other_way_round(chain: Path, tmp_path: Path) -> None:
    write(
        chain,
        a_views="""
          CREATE MATERIALIZED VIEW large AS SELECT customer, amount AS total FROM orders WHERE amount > 5;
          CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(total) AS total FROM large GROUP BY customer;
          CREATE MATERIALIZED VIEW best AS SELECT MAX(total) AS most FROM spend;
        """,
    )
    assert planned(chain, tmp_path) == {"every": "drop", "large": "replace", "spend": "replace", "best": "replace"}
    deploy(chain, tmp_path)
    with opened(tmp_path) as wh:
        wh.apply({"orders": [(+1, (4, "ann", 90)), (-1, (2, "bob", 7))]})
        assert wh.view("best").rows() == [(90,)] and wh.view("spend").rows() == [("ann", 90)] and all(wh.verify())
    assert not tidemill.plan(chain, tmp_path / "w")


def test_a_view_that_is_stored_now_and_one_that_no_longer_is(chain: Path, tmp_path: Path) -> None:
    texts = CHAIN.format("", "customer, total")
    for kinds in (("MATERIALIZED VIEW large", "VIEW large"), ("VIEW large", "MATERIALIZED VIEW large")):
        texts = texts.replace(*kinds)
        write(chain, a_views=texts)
        found = tidemill.plan(chain, tmp_path / "w")
        assert {step.action for step in found.steps} == {"drop", "create", "rebuild"}
        deploy(chain, tmp_path)
        assert not tidemill.plan(chain, tmp_path / "w")
        with opened(tmp_path) as wh:
            assert ("large" in wh.views()) == ("MATERIALIZED VIEW large" in texts)
            assert wh.view("best").rows() == [(7,)] and all(wh.verify())
    write(
        chain,
        b__tables="CREATE TABLE orders (id INT PRIMARY KEY, customer STRING, amount INT); CREATE VIEW t AS SELECT 1;",
    )
    deploy(chain, tmp_path)
    write(chain, b__tables=FILES["b/tables.sql"] + "CREATE TABLE t (a INT)")
    with pytest.raises(errors.NameTaken, match="is a view in the warehouse, and a table in the project"):
        tidemill.plan(chain, tmp_path / "w")


def test_what_the_project_does_not_name_follows(chain: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as wh:
        wh.sql("CREATE MATERIALIZED VIEW mine AS SELECT COUNT(*) AS n, MAX(total) AS m FROM large")
        wh.sql("CREATE MATERIALIZED VIEW yours AS SELECT twice(CAST(m AS INT)) AS m FROM mine")
    write(
        chain,
        a_views=CHAIN.format("", "total"),
        c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x INT) RETURNS INT RETURN x;",
    )
    deploy(chain, tmp_path, drop=False)
    with opened(tmp_path) as wh:
        assert wh.view("mine").rows() == [(1, 7)] and wh.view("yours").rows() == [(7,)] and all(wh.verify())
    found = tidemill.plan(chain, tmp_path / "w", drop=False)
    assert not found and found.left == ("mine", "yours")
    write(
        chain,
        a_views=CHAIN.format("", "customer").replace("MAX(total) AS most FROM large", "MAX(total) AS most FROM spend"),
    )
    with pytest.raises(errors.UnknownName) as refused:
        deploy(chain, tmp_path, drop=False)
    assert "not in the project" in refused.value.hint


def test_tables_with_other_columns(chain: Path, tmp_path: Path) -> None:
    write(
        chain,
        a_views=CHAIN.format("", "customer, total"),
        b__tables="""
          CREATE TABLE orders (id INT PRIMARY KEY, customer STRING NOT NULL, amount BIGINT DEFAULT 3, note STRING);
          CREATE TABLE fresh (a INT);
        """,
    )
    found = tidemill.plan(chain, tmp_path / "w")
    (orders,) = [step for step in found.steps if step.name == "orders"]
    assert orders.reason == "customer is NOT NULL, amount is BIGINT, amount has another default, adds note"
    deploy(chain, tmp_path)
    assert not tidemill.plan(chain, tmp_path / "w")
    with opened(tmp_path) as wh:
        wh.sql("INSERT INTO orders (id, customer) VALUES (4, 'eve')")
        assert ("eve", 3) in wh.view("spend").rows() and all(wh.verify())
        before = wh.epoch, wh.tables()
        wh.apply({"fresh": [(+1, (1,)), (+1, (1,))]})
    write(
        chain, b__tables=FILES["b/tables.sql"].replace("INT)", "BIGINT)"), e="CREATE TABLE fresh (a INT PRIMARY KEY);"
    )
    with pytest.raises(errors.TidemillError):
        deploy(chain, tmp_path)
    with opened(tmp_path) as wh:
        assert (wh.epoch - 1, wh.tables()) == before and len(wh.table("orders").definition.fields) == 4


def test_constraints_moved_columns_and_bounds(chain: Path, tmp_path: Path) -> None:
    events = "CREATE TABLE events (at TIMESTAMP, n INT) PARTITION BY at EVERY 1 DAY"
    versions = (
        (
            "id INT PRIMARY KEY, customer STRING, amount INT, CONSTRAINT low CHECK (amount > -5)",
            f"{events} LATENESS 1 DAY",
        ),
        (
            "id INT, note STRING, amount INT CHECK (amount > -9), customer STRING, UNIQUE (id)",
            f"{events} RETAIN 9 DAYS",
        ),
        ("customer STRING, id INT, amount INT, note STRING, PRIMARY KEY (id, customer)", events),
    )
    for columns, other in versions:
        write(
            chain, a_views=CHAIN.format("", "customer, total"), b__tables=f"CREATE TABLE orders ({columns}); {other};"
        )
        deploy(chain, tmp_path)
        assert not tidemill.plan(chain, tmp_path / "w")
        with opened(tmp_path) as wh:
            assert sorted(wh.view("spend").rows()) == [("ann", 4), ("bob", 7)] and all(wh.verify())
    with opened(tmp_path) as wh:
        assert wh.table("orders").definition.primary_key == ("id", "customer")
    write(chain, b__tables=f"CREATE TABLE orders ({versions[2][0]}, CHECK (amount > 0)); {events};")
    with pytest.raises(errors.DataError, match="cannot have the constraint"):
        deploy(chain, tmp_path)


def test_rows_that_a_deployment_finds_wrong_leave_everything_as_it_was(chain: Path, tmp_path: Path) -> None:
    with opened(tmp_path) as wh:
        wh.apply({"orders": [(+1, (4, None, 1))]})
        before = wh.epoch
    write(chain, a_views=CHAIN.format(", COUNT(*) AS n", "customer, total"), d="CREATE TABLE fresh (a INT);")
    write(chain, b__tables="CREATE TABLE orders (id INT PRIMARY KEY, customer STRING NOT NULL, amount INT);")
    with pytest.raises(errors.DataError, match="cannot be NOT NULL"):
        deploy(chain, tmp_path)
    write(
        chain,
        b__tables=FILES["b/tables.sql"],
        z="CREATE MATERIALIZED VIEW bad AS SELECT 1 DIV (id - 4) AS n FROM orders;",
    )
    with pytest.raises(errors.ArithmeticFault):
        deploy(chain, tmp_path)
    with opened(tmp_path) as wh:
        assert wh.epoch == before and "fresh" not in wh.tables() and "bad" not in wh.views()
        assert len(wh.view("spend").fields) == 2 and all(wh.verify())


def test_a_view_of_a_project_that_is_built_in_the_background(shop: Path, tmp_path: Path) -> None:
    write(shop, x=f"{SLOW} AS SELECT COUNT(*) AS n FROM orders")
    assert str(tidemill.plan(shop, tmp_path / "w")).startswith("create   materialized view slow  (in the background")
    tried = deploy(shop, tmp_path, dry_run=True)
    assert "slow: only in the second" in str(tried.changes)
    deploy(shop, tmp_path)
    assert not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert wh.builds.wait("slow", timeout=60) and wh.view("slow").rows() == [(3,)]
    assert not tidemill.plan(shop, tmp_path / "w")
    write(shop, x=f"{SLOW} AS SELECT COUNT(*) + 1 AS n FROM orders")
    deploy(shop, tmp_path)
    with opened(tmp_path) as wh:
        assert wh.view("slow").rows() == [(4,)]
