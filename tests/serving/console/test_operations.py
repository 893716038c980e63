"""The pages about operation with something on them: a build that goes on, a source that is followed, a certificate."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builds.stepping import _stepping, step
from tests.serving.console.browser import Shown
from tests.serving.console.conftest import Guarded
from tidemill.engine.warehouse import Warehouse

__all__ = ["_stepping"]


@pytest.fixture
def build(stepping: None, shop: Warehouse) -> Iterator[None]:
    """A build of the view "counted" over 40 rows, which goes on by ``step`` alone."""
    shop.sql("CREATE TABLE many (id INT PRIMARY KEY, n INT)")
    shop.apply({"many": [(+1, (number, number % 4)) for number in range(40)]})
    shop.sql(
        "CREATE MATERIALIZED VIEW counted WITH (build = 'background') AS SELECT n, COUNT(*) AS c FROM many GROUP BY n"
    )
    yield
    if len(shop.builds):
        shop.builds.cancel("counted")
    shop.sql("DROP TABLE many CASCADE")


def rows_taken(card: Any) -> int:
    return int(card.locator(".build-facts").inner_text().split(" of 40 rows")[0].split()[-1])


def test_a_build_is_watched_paused_and_cancelled(shown: Shown, shop: Warehouse, build: None) -> None:
    step(shop, 3)
    page = shown.open("#/builds")
    card = page.locator(".build").filter(has_text="counted")
    card.locator(".badge", has_text="filling").wait_for()
    before = rows_taken(card)
    assert 0 < before < 40
    assert page.get_by_role("progressbar", name="Progress of counted").get_attribute("value") == str(before / 40)
    page.get_by_role("link", name="Builds").filter(has_text="1").wait_for()
    card.get_by_role("button", name="Pause").click()
    card.locator(".badge", has_text="paused").wait_for()
    paused = rows_taken(card)
    assert paused >= before
    step(shop, 3)
    assert rows_taken(card) == paused
    card.get_by_role("button", name="Resume").click()
    card.locator(".badge", has_text="paused").wait_for(state="detached")
    step(shop, 2)
    now = next(iter(shop.builds)).rows
    card.get_by_text(f"{now} of 40 rows").wait_for()
    assert 0 < now < 40
    card.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Go on building").click()
    card.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the build").click()
    page.get_by_text("No view is being built").wait_for()
    assert not len(shop.builds) and "counted" not in shop.views()


def test_a_build_that_ends_is_a_view(shown: Shown, shop: Warehouse, build: None) -> None:
    page = shown.open("#/builds")
    page.locator(".build").filter(has_text="counted").wait_for()
    while len(shop.builds):
        step(shop)
    page.get_by_text("No view is being built").wait_for()
    shown.open("#/relation/counted")
    page.get_by_text("4 rows at epoch").wait_for()


def test_a_reader_only_watches_a_build(visitor: Shown, guarded: Guarded, build: None) -> None:
    visitor.log_in(guarded.tokens["reader"])
    card = visitor.open("#/builds").locator(".build").filter(has_text="counted")
    card.get_by_text("This needs the role owner; yours is reader.").wait_for()
    assert all(card.get_by_role("button", name=name).is_disabled() for name in ("Pause", "Cancel"))


@pytest.fixture
def tickets(shop: Warehouse, tmp_path: Path) -> Iterator[Any]:
    """A SQLite database that the warehouse follows by the source "crm", with the view "open_tickets" over it."""
    file = tmp_path / "crm.db"
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("CREATE TABLE tickets (id INTEGER PRIMARY KEY, state TEXT)")
    db.execute("INSERT INTO tickets VALUES (1, 'open'), (2, 'closed')")
    shop.sql(f"CREATE SOURCE crm TYPE sqlite OPTIONS (path = '{file}', setup = 'create')")
    shop.sql("CREATE MATERIALIZED VIEW open_tickets AS SELECT state, COUNT(*) AS n FROM crm.tickets GROUP BY state")
    yield db
    shop.sql("DROP VIEW open_tickets; DROP SOURCE crm")
    db.close()


def test_a_source_and_its_certificate_follow(shown: Shown, shop: Warehouse, tickets: Any) -> None:
    shown.page.clock.install()
    page = shown.open("#/sources")
    card = page.locator(".card").filter(has=page.get_by_role("heading", name="crm"))
    card.get_by_role("link", name="open_tickets").wait_for()
    assert "sqlite" in card.inner_text() and "tickets" in card.inner_text()
    facts = card.locator(".facts")
    before = facts.inner_text()
    tickets.execute("INSERT INTO tickets VALUES (3, 'open')")
    shop.sync()
    page.clock.fast_forward("00:05")
    position = next(value for name, value in shop.positions.items() if name.startswith("crm/"))
    facts.get_by_text(str(position), exact=True).wait_for()
    assert facts.inner_text() != before
    shown.open("#/relation/open_tickets/certificate")
    page.get_by_text("Each state that it shows is one of its sources, in order").wait_for()
    assert page.locator(".seal").inner_text() == "strong"
    shown_states = page.locator(".card").filter(has_text="States that it has shown")
    shown_states.get_by_text(f"epoch {shop.epoch}").wait_for()
    shown_states.get_by_text(str(position), exact=True).wait_for()
