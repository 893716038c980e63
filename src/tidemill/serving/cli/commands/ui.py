"""The command ``ui``: the console for a warehouse on this machine, in a browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.model.errors import LockHeld
from tidemill.serving.cli.commands.serve import wait_for
from tidemill.serving.cli.console_link import address_to_show, open_browser
from tidemill.serving.cli.observing.log_output import print_errors
from tidemill.serving.cli.served import ServerOptions, server_of
from tidemill.serving.cli.terminal.interrupts import INTERRUPTS
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    QuietOption,
    RuntimeName,
    RuntimeOption,
    open_folder,
    say,
)

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["ui"]


def ui(
    warehouse: FolderOption = DEFAULT_FOLDER,
    port: Annotated[int, typer.Option(help="The port; default: one that is free.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow sources, feeds, lake tables and the schedule as well.")
    ] = False,
    runtime: RuntimeOption = RuntimeName.auto,
    quiet: QuietOption = False,
) -> None:
    """Show a warehouse in the browser, live, until Ctrl-C.

    Where another process writes to it, it is read only, and shown as that process goes on. Only this machine can open
    the address. Where there are users, the browser and the address on the terminal are let in once, as the owner.

    \b
    Examples:
      tidemill ui -w shop
      tidemill ui -w shop --follow
      tidemill ui -w shop --no-open --port 8000
    """
    from tidemill.serving.console.assets import require_assets

    require_assets()
    print_errors()
    with _written_or_read(warehouse, runtime, follow=follow, quiet=quiet) as wh:
        server = server_of(wh, warehouse, ServerOptions(port=port))
        with INTERRUPTS.answered_here():
            signal.signal(signal.SIGTERM, lambda *_: server.stop())
            server.start()
            say(f"{warehouse} is at {address_to_show(server)}  (Ctrl-C ends it)", quiet=quiet)
            with open_browser(server) if browser else nullcontext():
                wait_for(server)


@contextmanager
def _written_or_read(warehouse: str, runtime: RuntimeName, *, follow: bool, quiet: bool) -> Iterator[Warehouse]:
    """The warehouse for writing, or beside its writer for reading."""
    with ExitStack() as stack:
        try:
            wh = stack.enter_context(open_folder(warehouse, runtime))
        except LockHeld:
            say("another process writes to it: it is shown, and cannot be changed here", quiet=quiet)
            wh = stack.enter_context(open_folder(warehouse, RuntimeName.native, read_only=True))
            follow = True
        else:
            wh.tick_clock()
        if follow:
            wh.follow()
        yield wh
