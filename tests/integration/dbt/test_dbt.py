"""dbt over PostgreSQL's protocol: what its commands make, leave alone and refuse."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal

import pytest

import tidemill
from tests.integration.dbt.running import PYTHON, Project
from tests.serving.pgwire.door import Door


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    if not PYTHON.exists():
        pytest.skip("there is no environment for dbt: make versions makes it")
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE visits (at TIMESTAMP); INSERT INTO visits VALUES (TIMESTAMP '2024-01-01 00:00:00')")
        wh.sql("CREATE TABLE noted (name STRING)")
        door = Door(wh)
        opened = Project(wh, door, tmp_path_factory.mktemp("dbt") / "jaffle")
        done = opened.dbt("build")
        assert done.failures == []
        assert done.said("orders") == "CREATE MATERIALIZED VIEW"
        assert done.said("stg_orders") == "CREATE VIEW"
        assert done.said("frozen") == "CREATE TABLE"
        assert [status for status, _ in done.nodes.values()].count("pass") == 6
        assert any("buyers is incremental: it becomes a materialized view, and does not need unique_key" in line
                   for line in done.logged)  # fmt: skip
        yield opened
        opened.close()
        door.close()


def test_what_a_build_makes(project: Project) -> None:
    wh = project.wh
    assert set(wh.views()) == {"orders", "buyers", "slow"}
    assert {"raw_customers", "raw_orders", "raw_payments", "archive_frozen"} < set(wh.tables())
    assert sorted(wh.view("buyers").rows())[0] == (1, "Michael", datetime.date(2018, 1, 1), 2, 2800)
    assert wh.sql("SELECT first_name, last_name FROM raw_customers WHERE id = 3").rows() == [("Kath'leen", "\\P")]
    assert wh.sql("SELECT * FROM noted").rows()[0] == ("archive_frozen",)
    assert "WITH (refresh = 'deferred')" in wh.view("slow").definition


def test_grants_are_those_of_the_model(project: Project) -> None:
    wh = project.wh
    wh.sql("GRANT SELECT ON orders TO auditor WHERE amount > 5; GRANT SELECT ON orders TO friend")
    assert project.dbt("run", "--select", "orders").said("orders") == "unchanged"
    grants = {(row[0], row[1]) for row in wh.sql("SHOW GRANTS ON orders").rows()}
    assert grants == {("analyst", "SELECT"), ("auditor", "SELECT")}
    with wh.session(user="ann", roles=("analyst",)) as ann:
        assert len(ann.sql("SELECT * FROM orders").rows()) == 3


def test_what_is_unchanged_is_left_alone(project: Project) -> None:
    subscription = project.wh.subscribe("buyers", timeout=0)
    before = {name: project.wh.view(name).definition for name in project.wh.views()}
    done = project.dbt("run")
    models = {"stg_customers", "stg_orders", "stg_payments", "orders", "customers", "Slow"}
    assert {name for name, (_, said) in done.nodes.items() if said == "unchanged"} == models
    assert done.said("frozen") == "INSERT 0 0", "the rows of a table that stays are compared"
    assert {name: project.wh.view(name).definition for name in project.wh.views()} == before
    assert list(subscription) == []


def test_a_changed_model_is_changed_in_place(project: Project) -> None:
    subscription = project.wh.subscribe("buyers", timeout=0)
    project.replace("models/marts/orders.sql", "p.total_amount as amount", "p.total_amount + 1 as amount")
    done = project.dbt("run")
    assert done.said("orders") == "REPLACE MATERIALIZED VIEW (its query differs)"
    assert (done.said("customers"), done.said("frozen")) == ("unchanged", "INSERT 0 2")
    (batch,) = subscription
    spent = [(weight, row[-1]) for weight, row in batch.changes]
    assert sorted(spent) == [(-1, 2000), (-1, 2800), (1, 2001), (1, 2802)]
    project.replace("models/marts/orders.sql", "p.total_amount + 1 as amount", "p.total_amount as amount")
    assert project.dbt("run", "--select", "orders").success


def test_a_staging_view_that_cannot_be_read_leaves_the_former_one(project: Project) -> None:
    project.replace("models/staging/stg_payments.sql", "payment_method, amount", "payment_method, amounts")
    assert 'there is no column "amounts"' in project.dbt("run", "--select", "stg_payments").said("stg_payments")
    project.replace("models/staging/stg_payments.sql", "payment_method, amounts", "payment_method, amount")
    assert project.dbt("run", "--select", "stg_payments").said("stg_payments") == "unchanged"


def test_a_changed_staging_view_reaches_what_is_made_of_it(project: Project) -> None:
    project.replace("models/staging/stg_payments.sql", "payment_method, amount", "payment_method, amount * 2 as amount")
    done = project.dbt("run", "--select", "stg_payments")
    assert done.said("stg_payments") == "REPLACE VIEW (its text differs)"
    assert any("its former query is read until these are run, too: orders, buyers" in line for line in done.logged)
    assert project.wh.sql("SELECT SUM(amount) FROM orders").rows() == [(4800,)]
    done = project.dbt("run", "--select", "orders+")
    assert (done.said("orders"), done.said("customers")) == (
        "REPLACE MATERIALIZED VIEW (its query differs)",
        "unchanged",
    )
    assert project.wh.sql("SELECT SUM(spent) FROM buyers").rows() == [(9600,)]
    assert not [name for (name,) in project.wh.sql("SELECT table_name FROM information_schema.views").rows()
                if "former" in name]  # fmt: skip


def test_other_columns_reach_readers_that_are_run_too(project: Project) -> None:
    project.replace("models/marts/orders.sql", "p.total_amount as amount", "cast(p.total_amount as string) as amount")
    project.replace("models/marts/customers.sql", "sum(o.amount) as spent", "max(o.amount) as spent")
    done = project.dbt("run", "--select", "orders")
    assert done.nodes["orders"][0] == "error"
    assert "Columns that views read are gone" in done.said("orders")
    done = project.dbt("run", "--select", "orders", "customers", "frozen")
    assert done.failures == []
    assert done.said("customers") == "CREATE MATERIALIZED VIEW"
    assert any("archive_frozen has other columns: it is dropped" in line for line in done.logged)
    project.replace("models/marts/orders.sql", "cast(p.total_amount as string) as amount", "p.total_amount as amount")
    project.replace("models/marts/customers.sql", "max(o.amount) as spent", "sum(o.amount) as spent")
    assert project.dbt("run", "--full-refresh").success


def test_seeds_stay_and_get_the_difference(project: Project) -> None:
    epoch = project.wh.epoch
    (project.folder / "seeds/raw_orders.csv").open("a").write("4,2,2018-02-01,lost\n")
    done = project.dbt(
        "build", "--select", "raw_orders+", "--exclude", "frozen", "--exclude-resource-type", "unit_test"
    )
    accepted = next(name for name in done.nodes if name.startswith("accepted_values"))
    assert done.nodes[accepted] == ["fail", "Got 1 result, configured to fail if != 0"]
    assert project.wh.epoch == epoch + 1
    assert (2, "Shawn", datetime.date(2018, 2, 1), 1, None) in project.wh.view("buyers").rows()
    project.replace("seeds/raw_customers.csv", "id,first_name", "number,first_name")
    assert "has other columns than its file" in project.dbt("seed").said("raw_customers")
    project.replace("seeds/raw_customers.csv", "number,first_name", "id,first_name")


def test_docs_know_columns_and_kinds(project: Project) -> None:
    done = project.dbt("docs", "generate")
    assert done.failures == []
    catalog = json.loads((project.folder / "target/catalog.json").read_text())
    kinds = {key.split(".")[-1]: node["metadata"]["type"] for key, node in catalog["nodes"].items()}
    assert (kinds["orders"], kinds["stg_orders"], kinds["frozen"]) == ("MATERIALIZED VIEW", "VIEW", "BASE TABLE")
    columns = catalog["nodes"]["model.jaffle.customers"]["columns"]
    assert {name: column["type"] for name, column in columns.items()}["first_order"] == "date"
    assert list(catalog["sources"]) == ["source.jaffle.web.visits"]


def test_freshness_show_and_debug(project: Project) -> None:
    assert project.dbt("source", "freshness").nodes["visits"][0] == "warn"
    assert project.dbt("show", "--select", "customers", "--limit", "1").success
    assert project.dbt("debug").success
    failed = project.dbt("show", "--inline", "select nothing from `orders`")
    assert 'there is no column "nothing"' in (failed.error or "")


def test_macros_are_sql_that_the_warehouse_understands(project: Project) -> None:
    assert project.dbt("compile", "--select", "expressions", "aggregates", "series").success
    found = {}
    for name in ("expressions", "aggregates"):
        answer = project.wh.sql((project.folder / f"target/compiled/jaffle/analyses/{name}.sql").read_text())
        found |= dict(zip(answer.columns, answer.rows()[0], strict=True))
    assert found == {
        "a_current_timestamp": True,
        "a_date": datetime.date(2024, 2, 29),
        "a_dateadd": datetime.datetime(2024, 2, 29),
        "a_datediff_day": 1,
        "a_datediff_year": 1,
        "a_date_trunc": datetime.datetime(2024, 2, 1),
        "a_last_day": datetime.date(2024, 2, 29),
        "a_last_day_of_quarter": datetime.date(2024, 3, 31),
        "a_hash": "9dd4e461268c8034f5c8564e155c67a6",
        "a_concat": "ab",
        "a_length": 3,
        "a_position": 2,
        "a_replace": "axc",
        "a_right": "bc",
        "a_split_part": "b",
        "a_split_part_from_the_end": "c",
        "a_safe_cast": None,
        "a_cast_bool_to_text": "true",
        "an_array_append": [1, 2, 3],
        "an_array_concat": [1, 2],
        "an_empty_array": [],
        "a_string_literal": "it's \\",
        "a_type_numeric": Decimal(1),
        "a_type_float": 1.0,
        "a_type_string": "1",
        "a_type_bigint": 1,
        "a_type_int": 1,
        "a_type_boolean": True,
        "a_type_timestamp": datetime.datetime(2024, 1, 1),
        "a_listagg": "c, b, a",
        "a_limited_listagg": "a, b",
        "a_bool_or": True,
        "an_any_value": "x",
    }
    series = (project.folder / "target/compiled/jaffle/analyses/series.sql").read_text()
    assert sorted(project.wh.sql(series).rows()) == [(1,), (3,)]


def test_what_is_refused_by_name(project: Project) -> None:
    models = project.folder / "models"
    (project.folder / "snapshots").mkdir()
    snapshot = project.folder / "snapshots" / "kept.yml"
    snapshot.write_text(
        "snapshots: [{name: kept, relation: ref('orders'), "
        "config: {unique_key: order_id, strategy: check, check_cols: all}}]"
    )
    (models / "batches.sql").write_text(
        "{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='order_date', "
        "batch_size='day', begin='2018-01-01') }} select * from {{ ref('stg_orders') }}"
    )
    project.replace(
        "models/schema.yml", "{name: customer_id, data_type: bigint}", "{name: customer_id, data_type: date}"
    )
    assert "contract" in project.dbt("run", "--select", "stg_customers").said("stg_customers")
    project.replace(
        "models/schema.yml", "{name: customer_id, data_type: date}", "{name: customer_id, data_type: bigint}"
    )
    (models / "odd.sql").write_text("{{ config(options={'colour': 'red'}) }} select 1 as a")
    done = project.dbt("build", "--select", "kept", "odd")
    assert "snapshots are not supported" in done.said("kept")
    assert "colour" in done.said("odd")
    batches = project.dbt("run", "--select", "batches")
    assert any("batches: the strategy microbatch is not supported" in line for line in batches.logged)
    assert not batches.success
    for path in (snapshot, models / "batches.sql", models / "odd.sql"):
        path.unlink()
    profile = project.folder / "profiles.yml"
    profile.write_text(profile.read_text().replace("dbname: shop", "dbname: shop, schema: dev"))
    assert 'a warehouse has no schema "dev"' in (project.dbt("debug").error or "") + str(project.dbt("run").error)
