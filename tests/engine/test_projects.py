"""Projects: a folder of SQL files is planned, tried on a clone, deployed, and compared with a warehouse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidemill
from tests.storage.samples import child_environment
from tidemill.engine.projects.deploy import DeployReport
from tidemill.engine.projects.plan import DeployPlan
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


def write(folder: Path, **changed: str) -> Path:
    for name, text in {**FILES, **{key.replace("__", "/") + ".sql": text for key, text in changed.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def deploy(folder: Path, tmp_path: Path, **more: bool) -> DeployReport:
    return tidemill.deploy(folder, tmp_path / "w", runtime="native", **more)  # type: ignore[arg-type]


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
        ("rebuild", "top"),
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
        ("x", f"{SLOW} AS SELECT COUNT(*) AS n FROM orders", errors.Unsupported, "in the background"),
    ):
        write(shop, **{name: f"CREATE TABLE fresh (a INT); {text}"})
        with pytest.raises(kind, match=said):
            deploy(shop, tmp_path)
    (shop / "x.sql").unlink()
    write(shop, b__tables="CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount INT)")
    with pytest.raises(errors.Unsupported, match="another one in the warehouse"):
        deploy(shop, tmp_path)
    with opened(tmp_path) as wh:
        assert (wh.epoch, wh.views()) == before and "fresh" not in wh.tables()


@pytest.mark.parametrize("death", [1, 2, 3, 4, 5])
def test_a_deployment_that_is_killed_is_run_again(shop: Path, tmp_path: Path, death: int) -> None:
    write(shop, c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x INT) RETURNS INT RETURN x;")
    environment = {**child_environment(), FAULT_VARIABLE: f"during-deploy:{death}"}
    command = [sys.executable, "-m", "tidemill", "deploy", str(shop), "-w", str(tmp_path / "w"), "-r", "native"]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == -9
    deploy(shop, tmp_path)
    assert not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert wh.view("top").rows() == [(7,)] and all(wh.verify())


def test_the_command_line_tells_whether_something_differs(shop: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tidemill", *arguments, "-w", str(tmp_path / "w")]
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert run("plan", str(shop), "--check")[0] == 0
    write(shop, d="CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM orders")
    code, said = run("plan", str(shop), "--check")
    assert code == 1 and said.startswith("create   materialized view many  (reads 3 rows")


def test_a_view_that_is_rebuilt_and_has_another_option(shop: Path, tmp_path: Path) -> None:
    write(
        shop,
        a_views=FILES["a_views.sql"].replace("VIEW top AS", "VIEW top WITH (strategy = 'delta') AS"),
        c="CREATE VIEW paid AS SELECT * FROM orders; CREATE FUNCTION twice(x INT) RETURNS INT RETURN x;",
    )
    assert ("rebuild", "top") in actions(deploy(shop, tmp_path).plan)
    assert not tidemill.plan(shop, tmp_path / "w")
    with opened(tmp_path) as wh:
        assert wh.view("top").rows() == [(7,)]
