"""The end of the demo: its shop in a browser, while changes go on."""

from __future__ import annotations

import importlib.util
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.console.assets import require_assets
from tidemill.serving.demo.shop import Shop

__all__ = ["offer_console"]

Noted = Callable[[], AbstractContextManager[threading.Event]]
"""Gives an event that Ctrl-C sets."""

CHANGES, PAUSE = 40, 0.2
"""Changes of an epoch while the console is shown, and seconds between two epochs."""


def offer_console(wh: Warehouse, shop: Shop, folder: Path | None, say: Callable[[str], None], noted: Noted) -> None:
    """Show the console if somebody at a terminal wants it; else say how it is opened."""
    if not (_can_be_shown() and sys.stdin.isatty() and sys.stdout.isatty()):
        say(how_to_look(folder))
    elif _is_wanted():
        with noted() as interrupted:
            _show(wh, shop, say, interrupted)


def _is_wanted() -> bool:
    try:
        answer = input("Look at it in the browser, while changes go on? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        print()
        return False
    return answer.strip().lower() in ("y", "yes")


def how_to_look(folder: Path | None) -> str:
    """Command that opens the console for the shop of the demo.

    >>> how_to_look(Path("shop"))
    'see it in the browser: tidemill ui -w shop'
    """
    if folder is None:
        return "see such a shop in the browser: tidemill demo --folder shop, then tidemill ui -w shop"
    return f"see it in the browser: tidemill ui -w {folder}"


def _can_be_shown() -> bool:
    try:
        require_assets()
    except SetupError:
        return False
    return importlib.util.find_spec("uvicorn") is not None and importlib.util.find_spec("starlette") is not None


def _show(wh: Warehouse, shop: Shop, say: Callable[[str], None], interrupted: threading.Event) -> None:
    """Serve the shop on a free port, and change it until Ctrl-C."""
    from tidemill.serving.server.server import Server
    from tidemill.serving.server.settings import Settings

    server = Server(wh, "shop", Settings(port=0))
    server.start()
    say(f"the shop is at {server.url}  (Ctrl-C ends it)")
    webbrowser.open(server.url)
    try:
        while not interrupted.wait(PAUSE):
            wh.apply(shop.step(CHANGES))
    finally:
        server.stop()
        server.wait()
