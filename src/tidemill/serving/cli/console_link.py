"""The way from the command ``ui`` into the console: whoever runs the command is the owner, also where there are users.

A token lets one browser in, once. It is shown on a terminal alone, since other output may become a log. A browser gets
it in a file of a folder that is closed to others: they see the commands of all processes, and the addresses in them.
"""

from __future__ import annotations

import html
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.serving.server.server import Server

__all__ = ["address_to_show", "open_browser"]

PAGE = '<!doctype html><title>Tidemill</title><meta http-equiv="refresh" content="0; url={address}">\n'


def address_to_show(server: Server) -> str:
    """The address of the console, which on a terminal lets whoever follows it in."""
    return server.invite_owner() if sys.stdout.isatty() else server.url


@contextmanager
def open_browser(server: Server) -> Iterator[None]:
    """Open the console in the browser; what that needs stays for the time of the block."""
    address = server.invite_owner()
    with nullcontext() if address == server.url else TemporaryDirectory(prefix="tidemill-") as folder:
        webbrowser.open(address if folder is None else _leading_to(address, Path(folder)))
        yield


def _leading_to(address: str, folder: Path) -> str:
    """The address of a file in ``folder`` that leads to another address."""
    page = folder / "console.html"
    page.write_text(PAGE.format(address=html.escape(address)))
    return page.as_uri()
