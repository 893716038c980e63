"""The command ``serve``: one process that owns a warehouse and answers requests for it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.serving.cli.observing.log_output import print_errors
from tidemill.serving.cli.served import ServerOptions, server_of
from tidemill.serving.cli.terminal.interrupts import INTERRUPTS
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    QuietOption,
    RuntimeName,
    RuntimeOption,
    UsersOption,
    open_folder,
    say,
)

if TYPE_CHECKING:
    from tidemill.serving.server.server import Server

__all__ = ["serve", "wait_for"]


def serve(
    warehouse: FolderOption = DEFAULT_FOLDER,
    host: Annotated[str, typer.Option(help="The address to listen at; others than this machine's need users.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port for HTTP; 0 chooses one.", min=0, max=65535)] = 6874,
    pg_port: Annotated[
        int | None,
        typer.Option(help="A port for PostgreSQL's protocol, such as 6875; 0 chooses one.", min=0, max=65535),
    ] = None,
    users: UsersOption = None,
    audit: Annotated[
        Path | None, typer.Option(help="The folder of the audit log, if it is not audit in the warehouse.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="A certificate in PEM, with those that lead to its root: doors speak TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate, in PEM.")] = None,
    tls_required: Annotated[
        bool | None,
        typer.Option(
            "--tls-required/--tls-optional",
            help="Refuse PostgreSQL clients that do not speak TLS; so it is beyond this machine.",
            show_default=False,
        ),
    ] = None,
    statement_timeout: Annotated[
        float | None, typer.Option(help="Seconds that a statement may take.", min=0.001)
    ] = None,
    rate: Annotated[
        float, typer.Option(help="Requests by HTTP that a user may send in a second, on average.", min=0.001)
    ] = 2_000.0,
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
      tidemill serve -w shop --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
      tidemill serve -w shop --read-only      (beside a process that writes)
    """
    print_errors()
    options = ServerOptions(host, port, pg_port, users, audit, tls_cert, tls_key, tls_required, statement_timeout, rate)
    with open_folder(warehouse, runtime, new=create, read_only=read_only) as wh:
        if follow or read_only:
            wh.follow()
        else:
            wh.tick_clock()
        server = server_of(wh, warehouse, options)
        with INTERRUPTS.answered_here():
            signal.signal(signal.SIGTERM, lambda *_: server.stop())
            server.start()
            say(f"serving {warehouse} at {' and '.join(server.addresses)}  (Ctrl-C ends it)", quiet=quiet)
            wait_for(server)
    say(f"{warehouse} is closed", quiet=quiet)


def wait_for(server: Server) -> None:
    """Wait until the server has stopped, by itself or by Ctrl-C, which ends the command as it ends any other."""
    from tidemill.runtimes.garbage_collection import loaded_code_passed_over

    try:
        with loaded_code_passed_over():
            server.wait()
    except KeyboardInterrupt:
        print("\nfinishing what runs ... (Ctrl-C again ends the process)", file=sys.stderr, flush=True)
        server.stop()
        server.wait()
        raise
