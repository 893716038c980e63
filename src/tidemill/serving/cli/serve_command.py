"""The command ``serve``: one process that owns a warehouse and answers requests for it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.model.errors import SetupError
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
    from tidemill.serving.server.server import Server

__all__ = ["serve", "server_of", "wait_for"]


def serve(
    warehouse: FolderOption = DEFAULT_FOLDER,
    host: Annotated[str, typer.Option(help="The address to listen at; others than this machine's need users.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port for HTTP; 0 chooses one.", min=0, max=65535)] = 6874,
    pg_port: Annotated[
        int | None, typer.Option(help="A port for PostgreSQL's protocol, such as 6875.", min=0, max=65535)
    ] = None,
    runtime: RuntimeOption = RuntimeName.auto,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Read beside another process that writes, and follow it.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow sources, feeds, lake tables and the schedule as well.")
    ] = False,
    create: Annotated[bool, typer.Option("--create", help="Create the warehouse if there is none.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Serve a warehouse by HTTP until Ctrl-C or SIGTERM.

    Then no more requests are taken, what runs is finished, and the warehouse is closed.

    \b
    Examples:
      tidemill serve -w shop
      tidemill serve -w shop --port 8000 --follow
      tidemill serve -w shop --pg-port 6875   (and psql -h localhost -p 6875 shop)
      tidemill serve -w shop --read-only      (beside a process that writes)
    """
    with open_folder(warehouse, runtime, new=create, read_only=read_only) as wh:
        if follow or read_only:
            wh.follow()
        server = server_of(wh, warehouse, host, port, pg_port)
        with INTERRUPTS.answered_here():
            signal.signal(signal.SIGTERM, lambda *_: server.stop())
            server.start()
            say(f"serving {warehouse} at {server.url}  (Ctrl-C ends it)", quiet=quiet)
            wait_for(server)
    say(f"{warehouse} is closed", quiet=quiet)


def server_of(wh: object, warehouse: str, host: str, port: int, pg_port: int | None = None) -> Server:
    """A server for an open warehouse; its packages are an extra."""
    try:
        from tidemill.serving.server.server import Server
        from tidemill.serving.server.settings import Settings
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{error.name} is not installed",
            detail="The server is an extra: nothing else needs it.",
            hint="Run: python -m pip install 'tidemill[server]'",
        ) from error
    from tidemill.engine.warehouse import Warehouse

    assert isinstance(wh, Warehouse)
    settings, doors = Settings(host=host, port=port), []
    if pg_port is not None:
        from tidemill.serving.access.users import Users
        from tidemill.serving.pgwire.server import PgServer
        from tidemill.serving.server.statement_pool import StatementPool

        pool = StatementPool(settings.threads, settings.queue, "pgwire statement")
        doors.append(PgServer(wh, Users.load(warehouse), pool, host, pg_port))
    return Server(wh, Path(warehouse).name, settings, doors)


def wait_for(server: Server) -> None:
    """Wait until the server has stopped, by itself or by Ctrl-C, which ends the command as it ends any other."""
    try:
        server.wait()
    except KeyboardInterrupt:
        print("\nfinishing what runs ... (Ctrl-C again ends the process)", file=sys.stderr, flush=True)
        server.stop()
        server.wait()
        raise
