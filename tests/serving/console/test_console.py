"""The console in a real browser: every page, live changes, time travel, errors, hostile names and rows, keys."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.serving.console.browser import PHONE, WIDE, Shown
from tests.serving.console.conftest import HOSTILE
from tidemill.engine.warehouse import Warehouse

PAGES = {
    "#/": "part_price",
    "#/relation/spend": "rows at epoch",
    "#/relation/orders": "amount",
    "#/relation/spend/changes": "Waiting for the next change",
    "#/relation/spend/plan": "All of EXPLAIN",
    "#/relation/spend/costs": "Time of one refresh",
    "#/relation/spend/refreshes": "incremental",
    "#/relation/spend/definition": "Open in the editor",
    "#/relation/orders/definition": "PRIMARY KEY",
    "#/relation/part_price/errors": "Go on without them",
    "#/sql": "Earlier statements",
    "#/costs": "The next minute",
    "#/builds": "No view is being built",
    "#/sources": "No source, feed or lake table is declared",
    "#/trouble": "Rows held back",
}


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_every_page_is_shown_and_fits(shown: Shown, scheme: str, size: Any) -> None:
    shown.page.emulate_media(color_scheme=scheme)
    shown.page.set_viewport_size(size)
    for address, text in PAGES.items():
        page = shown.open(address)
        shown.wait_for_text(text)
        assert page.evaluate("document.querySelector('main').scrollWidth <= innerWidth"), address
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.locator(".who, .login, .refusal:not(:empty)").count() == 0  # without users everybody is the owner


def test_a_change_is_shown_within_a_second(shown: Shown, shop: Warehouse) -> None:
    """The fastest of three: other processes of this machine may hold one back."""
    page = shown.open("#/relation/spend")
    page.get_by_role("cell", name="ann").wait_for()
    waited = []
    for turn in range(3):
        begun = time.monotonic()
        shop.apply({"orders": [(+1, (100 + turn, f"zoe {turn}", f"0.7{turn}", 1))]})
        page.get_by_role("cell", name=f"0.7{turn}").wait_for()
        waited.append(time.monotonic() - begun)
        if waited[-1] < 1.0:
            break
    assert min(waited) < 1.0


def test_changes_are_listed_as_they_come(shown: Shown, shop: Warehouse) -> None:
    page = shown.open("#/relation/spend/changes")
    page.get_by_text("Waiting for the next change").wait_for()
    page.wait_for_timeout(200)  # the stream begins
    shop.apply({"orders": [(+1, (200, "yan", "1.25", 1)), (+1, (201, HOSTILE, "2.50", 1))]})
    page.get_by_role("row").filter(has_text="yan").filter(has_text="+1").wait_for()
    page.get_by_role("row").filter(has_text="<img src=x").filter(has_text="−1").wait_for()
    page.get_by_role("button", name="Hold").click()
    shop.apply({"orders": [(+1, (202, "yet", "1.25", 1))]})
    page.wait_for_timeout(300)
    assert page.get_by_text("yet", exact=True).count() == 0
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("yet", exact=True).wait_for()


def test_rows_of_an_epoch_are_shown(shown: Shown, shop: Warehouse) -> None:
    page = shown.open("#/relation/spend")
    page.get_by_role("cell", name="40.00").wait_for()
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.get_by_text("2 rows at epoch 1").wait_for()
    assert page.get_by_role("cell", name="40.00").count() == 0
    page.get_by_role("button", name="Back to now").click()
    page.get_by_role("cell", name="40.00").wait_for()


def test_a_row_leads_to_the_rows_that_it_comes_from(shown: Shown) -> None:
    page = shown.open("#/relation/top_spenders")
    page.get_by_role("cell", name="cora").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("table", name="Rows of orders").get_by_role("cell", name="40.00").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_a_whole_number_is_shown_as_it_is(shown: Shown) -> None:
    """2^53 + 1 is no number of JavaScript; its row is found again by it."""
    page = shown.open("#/relation/late")
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("cell", name="9007199254740993").click()
    page.get_by_role("dialog").get_by_role("cell", name="9.50").wait_for()


def test_an_error_has_its_four_fields(shown: Shown) -> None:
    page = shown.open("#/sql")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("SELECT customr FROM spend")
    page.keyboard.press("Control+Enter")
    error = page.get_by_role("alert")
    error.wait_for()
    assert error.locator(".error-kind").inner_text() == "UnknownName"
    assert "customr" in error.locator(".error-what").inner_text()
    assert "sql:1:8" in error.locator(".error-where").inner_text()
    assert "customer" in error.locator(".error-hint").inner_text()
    page.evaluate("location.hash = '#/relation/spend'")
    page.get_by_role("cell", name="ann").wait_for()
    page.get_by_label("Where").fill("nothing:1")
    page.keyboard.press("Enter")
    assert "nothing" in page.get_by_role("alert").locator(".error-what").inner_text()
    shown.answered_with_errors()


def test_the_editor_completes_and_runs(shown: Shown) -> None:
    page = shown.open("#/sql")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("SELECT total FROM top_sp")
    page.locator(".cm-completionLabel", has_text="top_spenders").wait_for()
    page.wait_for_timeout(100)
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.get_by_role("table", name="Result").get_by_role("cell", name="40.00").wait_for()


def test_held_back_rows_are_released(shown: Shown) -> None:
    page = shown.open("#/relation/part_price/errors")
    page.get_by_role("cell", name="division by zero").first.wait_for()
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("1 still held back").wait_for()


def test_names_and_rows_are_text(shown: Shown, shop: Warehouse) -> None:
    name = "<img src=x onerror=\"document.title='taken'\">"

    def hostile(route: Any) -> None:
        answer = route.fetch().json()
        answer["views"].append({**answer["views"][0], "name": name, "note": name})
        answer["warehouse"] = name
        route.fulfill(json=answer)

    shown.page.route("**/v1/status", hostile)
    page = shown.open("#/")
    page.get_by_text(name).first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("option").filter(has_text=name).wait_for()
    page.keyboard.press("Escape")
    for address in ("#/relation/hostile", "#/relation/spend"):
        shown.open(address)
        page.get_by_role("cell", name="<img src=x").first.wait_for()
    shown.open("#/relation/hostile/plan")
    page.get_by_text("All of EXPLAIN").wait_for()
    assert page.locator("#app img:not([src='assets/icon.svg']), #app script, #injected").count() == 0
    assert page.title() != "taken"


def test_keys_lead_everywhere(shown: Shown) -> None:
    page = shown.open("#/")
    page.get_by_text("part_price").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").wait_for()
    page.keyboard.type("top_sp")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="top_spenders").wait_for()
    page.get_by_role("tab", name="Rows", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("tab", name="Definition", selected=True).wait_for()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.get_by_role("heading", name="Costs").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    page.locator("html[data-theme=dark]").wait_for()
    shown.open("#/")
    page.get_by_role("application").focus()
    page.wait_for_timeout(300)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Rows", exact=True).wait_for()
