"""A Chromium that is installed here, and pages in it that remember what went wrong on them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidemill.model.errors import SetupError
from tidemill.serving.console.assets import require_assets

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def require_browser() -> str:
    """The path of a Chromium; whatever is missing skips the tests that need it."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    try:
        require_assets()
    except SetupError as missing:
        pytest.skip(f"{missing.what}: {missing.hint}")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


@contextmanager
def started() -> Iterator[Any]:
    """A browser with a profile of its own, which is gone afterwards."""
    path = require_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(QUIET))
        yield browser
        browser.close()


class Shown:
    """A page of the console; ``faults`` is what it wrote to its console as errors, such as violations of its policy."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("console", lambda told: told.type == "error" and self.faults.append(told.text))

    def open(self, address: str = "#/") -> Any:
        """Show an address of the console."""
        self.page.goto(f"{self.url}/{address}")
        return self.page

    def log_in(self, token: str) -> None:
        """Log in without the page of it."""
        answer = self.page.context.request.post(
            f"{self.url}/v1/login", data={"token": token}, headers={"Origin": self.url}
        )
        assert answer.ok

    def wait_for_text(self, text: str) -> None:
        """Wait until a text is seen."""
        self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def answered_with_errors(self) -> None:
        """Forget what the browser itself says of answers that are errors: the test wanted them."""
        self.faults = [fault for fault in self.faults if "the server responded with a status of" not in fault]
