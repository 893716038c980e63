"""The console where the server has users: logging in and out, and what each role is offered."""

from __future__ import annotations

import re
import webbrowser
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.console.browser import PHONE, Shown
from tests.serving.console.conftest import Guarded
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.cli.console_link import open_browser

OWNERS_ALONE = "This needs the role owner; yours is reader."


def type_token(page: Any, token: str) -> None:
    """Type into the field of the login, which has the focus."""
    page.get_by_label("Token").and_(page.locator(":focus")).wait_for()
    page.keyboard.type(token)
    page.keyboard.press("Enter")


def write_statement(page: Any, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def test_a_token_lets_in(visitor: Shown, guarded: Guarded) -> None:
    page = visitor.open("#/relation/top_spenders")
    type_token(page, "tidemill_guessed")
    error = page.get_by_role("alert")
    error.wait_for()
    fields = [error.locator(f".error-{field}").inner_text() for field in ("kind", "what", "where", "hint")]
    assert all(fields) and "the token is nobody's" in fields[1]
    assert page.get_by_role("cell").count() == 0
    type_token(page, guarded.tokens["reader"])
    page.get_by_role("cell", name="40.00").wait_for()
    page.get_by_role("button", name="You are the.reader, reader").wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, document.cookie, location.href])")
    assert guarded.tokens["reader"] not in kept and '""' in kept
    visitor.answered_with_errors()


def test_login_and_logout_by_keyboard_on_a_phone(visitor: Shown, guarded: Guarded) -> None:
    visitor.page.set_viewport_size(PHONE)
    visitor.page.emulate_media(color_scheme="dark")
    page = visitor.open("#/sql")
    page.locator("html[data-theme=dark]").wait_for()
    page.get_by_label("Token").and_(page.locator(":focus")).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.locator("html[data-theme=light]").wait_for()
    page.keyboard.press("Tab")
    type_token(page, guarded.tokens["writer"])
    write_statement(page, "INSERT INTO drafts VALUES (1)")
    assert page.get_by_role("button", name="Run").is_enabled()
    page.get_by_role("button", name="You are the.writer, writer").focus()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="You").get_by_role("button", name="Log out").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Log in").wait_for()
    assert "draft" not in page.evaluate("JSON.stringify({...localStorage})")
    page.reload()
    type_token(page, guarded.tokens["writer"])
    page.get_by_role("button", name="Run").wait_for()


def test_a_reader_is_offered_no_changes(visitor: Shown, guarded: Guarded) -> None:
    visitor.log_in(guarded.tokens["reader"])
    page = visitor.open("#/relation/part_price/errors")
    page.get_by_role("cell", name="division by zero").first.wait_for()
    for name in ("Try again", "Go on without them"):
        assert page.get_by_role("button", name=name).is_disabled()
    page.get_by_text(OWNERS_ALONE).wait_for()
    visitor.open("#/relation/late")
    page.get_by_text(OWNERS_ALONE).wait_for()
    assert page.get_by_role("button", name="Refresh", exact=True).is_disabled()
    visitor.open("#/sql")
    run = page.get_by_role("button", name="Run")
    for statement, role in (
        ("DROP VIEW spend", "owner"),
        ("SELECT 1; -- and\nRELEASE ERRORS part_price", "owner"),
        ("INSERT INTO orders VALUES (1)", "writer"),
    ):
        write_statement(page, statement)
        page.get_by_role("status").filter(has_text=f"This needs the role {role}; yours is reader.").wait_for()
        assert run.is_disabled()
        page.keyboard.press("Control+Enter")
    write_statement(page, "SELECT 'DROP VIEW spend; ' || total AS t FROM top_spenders")
    page.keyboard.press("Control+Enter")
    page.get_by_role("table", name="Result").get_by_role("cell", name="DROP VIEW spend; 40.00").wait_for()


@pytest.fixture
def rights(shop: Warehouse) -> Iterator[None]:
    """Rights of the user without a role: some rows of a view, and new rows of a table."""
    given = "SELECT ON spend", "INSERT ON orders"
    shop.sql("GRANT SELECT ON spend TO `the.granted` WHERE customer = 'cora'; GRANT INSERT ON orders TO `the.granted`")
    yield
    shop.sql("; ".join(f"REVOKE {one} FROM `the.granted`" for one in given))


def test_who_was_granted_rights_is_offered_these(
    visitor: Shown, guarded: Guarded, shop: Warehouse, rights: None
) -> None:
    visitor.log_in(guarded.tokens["granted"])
    visitor.page.clock.install()
    page = visitor.open("#/")
    page.get_by_role("listitem").filter(has_text="spend").get_by_role("link").click()
    page.get_by_role("cell", name="cora").wait_for()
    assert page.get_by_role("cell", name="ann").count() == 0
    shop.apply({"orders": [(+1, (69, "cora", "1.00", 1))]})
    page.clock.fast_forward("00:03")
    page.get_by_role("cell", name="41.00").wait_for()
    assert page.get_by_role("tab").all_inner_texts() == ["Rows", "Live changes"]
    assert page.get_by_role("link", name="Costs").count() == 0
    why = "This needs the role reader; you have the rights that were granted to you."
    assert page.get_by_text("Costs").locator("..").get_attribute("title") == why
    visitor.open("#/costs")
    page.get_by_text(why).wait_for()
    visitor.open("#/sql")
    write_statement(page, "INSERT INTO orders VALUES (70, 'cora', 1.00, 1)")
    page.get_by_role("button", name="Run").click()
    visitor.wait_for_text("1 row change in epoch")
    assert page.get_by_role("button", name="Plan").is_disabled()
    visitor.open("#/relation/spend")
    page.get_by_role("cell", name="42.00").wait_for()


def test_who_is_removed_has_to_log_in_and_goes_on(visitor: Shown, guarded: Guarded, shop: Warehouse) -> None:
    token = guarded.users.add_token("the.reader", "lent")
    visitor.log_in(token)
    page = visitor.open("#/relation/spend/changes")
    page.get_by_text("Waiting for the next change").wait_for()
    guarded.users.remove_token("the.reader", "lent")
    page.get_by_text("The login has ended").wait_for()
    assert page.get_by_text("spend").count() == 0
    shop.apply({"orders": [(+1, (71, "meanwhile", "1.00", 1))]})
    type_token(page, guarded.tokens["reader"])
    page.get_by_role("row").filter(has_text="meanwhile").wait_for()
    shop.apply({"orders": [(+1, (72, "afterwards", "1.00", 1))]})
    page.get_by_role("row").filter(has_text="afterwards").wait_for()
    page.get_by_text("live", exact=True).wait_for()
    visitor.answered_with_errors()


def test_a_link_lets_the_owner_in_once(visitor: Shown, guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(webbrowser, "open", given.append)
    page = visitor.open(f"#{guarded.tokens['reader']}")  # a token that lasts is none for a link
    page.get_by_role("heading", name="Log in").wait_for()
    with open_browser(guarded.server):
        page.goto(given[0])
        page.get_by_role("button", name="You are owner, owner").wait_for()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#/", page.url)
    link = guarded.server.invite_owner()
    page.goto(link)  # somebody is logged in: it is not used, and not shown
    page.get_by_text("part_price").first.wait_for()
    for found in (page.get_by_role("button", name="You are owner, owner"), page.get_by_text("the token is nobody's")):
        assert "once" not in page.url
        page.context.clear_cookies()
        page.goto("about:blank")
        page.goto(link)
        found.wait_for()
    visitor.answered_with_errors()


def test_a_hostile_name_is_text(visitor: Shown, guarded: Guarded) -> None:
    name = "<img src=x onerror=\"document.title='taken'\">"
    visitor.log_in(guarded.tokens["owner"])
    visitor.page.route("**/v1/me", lambda route: route.fulfill(json={**route.fetch().json(), "user": name}))
    page = visitor.open("#/")
    page.get_by_text(name).click()
    page.get_by_role("dialog").get_by_role("heading", name=name).wait_for()
    assert page.locator("#app img:not([src='assets/icon.svg'])").count() == 0
    assert page.title() != "taken"
